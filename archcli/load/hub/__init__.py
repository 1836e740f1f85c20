"""The Hugging Face hub: the config.json of a repository, from the cache or fetched; no other file, no code."""
