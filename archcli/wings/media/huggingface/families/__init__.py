"""Families of encoders: a file for each, which only a file of its model types imports."""
