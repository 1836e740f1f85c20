"""Signs of a drawing of an architecture: what each role of a node looks like, and its room."""
