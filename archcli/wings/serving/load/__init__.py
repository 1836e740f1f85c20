"""What is read from a running server."""
