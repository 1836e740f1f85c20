"""Verify: what torch and fvcore count of the built model, beside what archcli counts."""
