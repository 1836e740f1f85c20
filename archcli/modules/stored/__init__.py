"""How weights are stored: formats and quantization."""
