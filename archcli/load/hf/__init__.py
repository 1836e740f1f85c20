"""What the loader knows of Hugging Face: for now its words; the importer is not built yet."""
