"""Families by kin: each file has `FAMILIES`, a row for each `model_type`, which listing.json lists."""
