"""A model's architecture in the words of others: the config.json whose import it is."""
