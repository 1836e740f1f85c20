"""Modules of your own: any nn.Module becomes rows, by running it on tensors without values."""
