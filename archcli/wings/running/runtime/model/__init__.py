"""Build: an architecture as an ordinary `nn.Module` tree that runs, trains and compiles."""
