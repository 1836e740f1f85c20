"""Profile: one pass of a built model, timed and traced on this machine."""
