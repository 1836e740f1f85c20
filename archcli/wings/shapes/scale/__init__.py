"""Scale: the nearest good shape of a family at another size, and the size that a budget trains best."""
