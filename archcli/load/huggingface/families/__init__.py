"""Families: one file per `model_type` of Hugging Face, found by its `MODEL_TYPES`."""
