"""Where a config.json states how its weights are stored."""

from __future__ import annotations

from dataclasses import replace

from archcli.load.huggingface.config import Config

KEYS = ("quantization_config", "compression_config")
OF_MLX = "quantization"
"""Where MLX states it, beside a copy at quantization_config; neither names its method."""


def stated_quantization(config: Config) -> Config | None:
    """The quantization_config of a config, or what else it states of that kind; ArchError if no mapping."""
    config.ignore(*KEYS)
    own = config.data.get(OF_MLX)
    if isinstance(own, dict) and {"bits", "group_size"} <= own.keys():
        config.ignore(OF_MLX)
        stated = config.inner(OF_MLX, {})
        return replace(stated, data={"quant_method": "mlx", **stated.data})
    return next((config.inner(key, {}) for key in KEYS if config.data.get(key)), None)
