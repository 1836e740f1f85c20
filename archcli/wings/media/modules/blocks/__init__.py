"""Layers of encoders of images and sounds."""
