"""Saved profiles: read back, the passes that they measured, and this machine's constants fitted to them."""
