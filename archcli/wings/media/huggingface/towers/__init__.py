"""Towers: encoders of images and sounds beside a language model, read from a config.json."""
