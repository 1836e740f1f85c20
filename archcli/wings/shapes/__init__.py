"""Shapes: closed forms of figures, searches among shapes, and laws of scaling."""
