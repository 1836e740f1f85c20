"""Modules of encoders of images and sounds, and of what joins them to a language model."""
