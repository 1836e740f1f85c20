"""The drawing of an architecture as text, for a terminal of 40 columns or more."""
