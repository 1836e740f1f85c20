"""Survey: many architectures by the same columns."""
