"""Blocks: how mixers, networks and norms are wired into a layer."""
