"""Norms by the keys of their eps."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.attention import Flag
from archcli.load.huggingface.value import ConfigValue, Mapped


def layernorm(eps: float | ConfigValue[float], *, weight: Flag = True, bias: Flag = True) -> Mapped:
    """LayerNorm, with or without trained weight and bias."""
    trained = {"weight": weight, "bias": bias}
    return {"kind": "layernorm", "eps": eps} | {key: flag for key, flag in trained.items() if not flag}


def rmsnorm(config: Config, *, eps: float = 1e-6, offset: int = 0) -> Mapped:
    """RMSNorm with the eps of `rms_norm_eps`."""
    mapping = {"kind": "rmsnorm", "eps": config.number("rms_norm_eps", default=eps)}
    return mapping | ({"offset": offset} if offset else {})
