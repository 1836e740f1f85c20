"""Classes of transformers in place of a description: a config.json's model on meta, and inputs for it."""
