"""What a drawing of an architecture says: kinds of layer, their parts, shares. Nothing is placed."""
