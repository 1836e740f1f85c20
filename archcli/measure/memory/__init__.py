"""Memory: the bytes of stored weights, of a run, and of this machine."""
