"""Doors: other ways to ask: assistants, and the page in a browser."""
