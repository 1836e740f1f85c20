"""YAML: text to a tree of nodes that know their place, and back to text."""
