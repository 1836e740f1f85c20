"""Running: models, modules and programs run by torch: build, verify, profile."""
