"""Whole mappings that families of encoders share."""
