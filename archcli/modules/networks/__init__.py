"""Feed-forward networks, experts, norms and activations."""
