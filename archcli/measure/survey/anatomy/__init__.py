"""What a drawing of an architecture says, read off its rows: kinds of layer, parts, shares. Nothing is placed."""
