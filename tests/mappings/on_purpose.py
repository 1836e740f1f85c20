"""Keys by whose variation archcli differs from the class on purpose, each with the reason."""

ON_PURPOSE: dict[str, dict[str, str]] = {}
"""By `mapping/model_type`: the key, and why."""
