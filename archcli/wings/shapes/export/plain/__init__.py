"""An architecture as one file of plain PyTorch: the model's forward, read on a tape that writes code."""
