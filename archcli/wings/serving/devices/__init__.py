"""Devices and engines: their files, names as people write them, and the memory there is."""
