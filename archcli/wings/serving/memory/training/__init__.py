"""The training step: its backward, its loss, what it recomputes, and the optimizer."""
