"""What a drawing of an architecture says: its kinds of layer, their parts, and shares. Nothing is placed."""
