"""Recurrent mixers: a state of one size in place of a cache that grows."""
