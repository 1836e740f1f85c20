"""GGUF architectures with recurrent layers."""
