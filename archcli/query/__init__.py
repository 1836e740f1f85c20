"""Query: conditions and expressions on figures, read by one parser and never by Python's."""
