"""Names of stored tensors, mapped to archcli's weights."""
