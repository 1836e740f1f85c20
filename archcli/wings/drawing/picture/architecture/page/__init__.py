"""The page of a drawing: head, strip of layers, kinds and panels in their places, and the foot."""
