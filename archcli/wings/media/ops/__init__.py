"""Ops on grids: images [B, C, H, W], patches of them, and tables of their places."""
