"""The drawing of an architecture: its glyphs, layout and page."""
