"""Verify: archcli's counts compared with those of torch and fvcore on the built model."""
