"""Families of encoders of images, sounds and their texts, a file for each."""
