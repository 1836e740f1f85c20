"""Memory: what a pass or a training step takes, folded from the rows of one traced forward."""
