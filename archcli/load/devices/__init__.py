"""Devices: the files that describe them, their names as people write them, and the memory there is."""
