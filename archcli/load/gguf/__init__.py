"""GGUF: the header of a file to the config.json it was made from."""
