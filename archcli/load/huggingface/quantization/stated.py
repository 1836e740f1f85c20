"""Where a config.json states how its weights are stored."""

from __future__ import annotations

from archcli.load.huggingface.config import Config

KEYS = ("quantization_config", "compression_config")


def stated_quantization(*configs: Config) -> Config | None:
    """The quantization_config of the first of these configs that has one; ArchError if it is no mapping."""
    for config in configs:
        for key in KEYS:
            if config.data.get(key):
                config.ignore(*KEYS)
                return config.inner(key, {})
    return None
