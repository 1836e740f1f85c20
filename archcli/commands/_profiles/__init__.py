"""Saved profiles: read back, the passes that they measured, and constants fitted to them."""
