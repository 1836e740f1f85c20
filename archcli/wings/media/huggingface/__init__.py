"""Import of the towers of a Hugging Face config.json."""
