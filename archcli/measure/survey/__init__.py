"""Survey: a table of many architectures with the same columns."""
