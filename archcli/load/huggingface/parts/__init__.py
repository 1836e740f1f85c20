"""Parts of the mapping that many families share: from keys of a config.json to fields of ours."""
