"""Drawings as SVG, in a page, or as PNG (extra `plot`): their elements, labels and files."""
