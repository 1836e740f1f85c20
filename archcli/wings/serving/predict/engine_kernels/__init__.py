"""How long one call of an engine's kernel takes, from sizes of the call and constants of the kernel."""
