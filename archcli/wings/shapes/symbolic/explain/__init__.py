"""Explain: where a number comes from, component by component, read off the traced forward."""
