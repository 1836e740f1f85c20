"""The config.json of a repository of the Hugging Face hub; no other file is read, no code run."""
