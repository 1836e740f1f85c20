"""Models of the hub and of other catalogues: a config.json, names, headers of files; no code is run."""
