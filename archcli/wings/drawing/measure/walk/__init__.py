"""The way of one token through a model, step by step."""
