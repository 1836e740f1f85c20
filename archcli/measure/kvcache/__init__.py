"""The KV cache: its size, and its size with other kinds of attention."""
