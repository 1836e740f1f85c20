"""Feed-forward networks, activations and norms by the usual keys."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import MISSING, Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import Flag

ACTIVATIONS: dict[str, Any] = {
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "hardswish": "hard_swish",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python": "gelu",
    "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": {"kind": "swish", "beta": 1.702},
    "silu": "silu",
    "swish": "silu",
    "sigmoid": "sigmoid",
    "xielu": "xielu",
}
"""Hugging Face's name: ours."""


def activation(config: Config, *names: str, default: Any = MISSING) -> ConfigValue[Any]:
    """archcli's kind of the activation function."""
    name = config.value(*names, default=default)
    if not isinstance(name.value, str) or name.value not in ACTIVATIONS:
        what = f"activation {short_repr(name.value)} is not supported"
        raise config.error(what, "known: " + ", ".join(ACTIVATIONS), name.place)
    return name.derive(ACTIVATIONS[name.value])


def gated(
    config: Config,
    *,
    width: str = "intermediate_size",
    act: str = "hidden_act",
    bias: Flag | list[str] = False,
) -> Mapped:
    """A gated network such as SwiGLU, by the keys of its width and activation function."""
    function = activation(config, act, default="silu")
    mapping = {"kind": "glu", "d_ff": config.size(width), "activation": function}
    return mapping | ({"bias": bias} if bias else {})


def mlp(config: Config, d_ff: ConfigValue[int], act: str, *, bias: Flag = True) -> Mapped:
    """An ungated network, by the key of its activation function."""
    mapping = {"kind": "mlp", "d_ff": d_ff, "activation": activation(config, act)}
    return mapping | ({"bias": bias} if bias else {})


def layernorm(eps: float | ConfigValue[float], *, weight: Flag = True, bias: Flag = True) -> Mapped:
    """LayerNorm, with or without trained weight and bias."""
    trained = {"weight": weight, "bias": bias}
    return {"kind": "layernorm", "eps": eps} | {key: flag for key, flag in trained.items() if not flag}


def rmsnorm(config: Config, *, eps: float = 1e-6, offset: int = 0) -> Mapped:
    """RMSNorm with the eps of `rms_norm_eps`."""
    mapping = {"kind": "rmsnorm", "eps": config.number("rms_norm_eps", default=eps)}
    return mapping | ({"offset": offset} if offset else {})


def hyper_layer(config: Config) -> Mapped:
    """A layer with hyper-connections (arXiv:2409.19606), without attention and network."""
    streams = config.size("hc_mult")
    if streams == 1:
        raise config.error("hc_mult 1 is not supported", "state 2 or more", streams.place)
    return {
        "kind": "hyper",
        "n_streams": streams,
        "eps": config.number("hc_eps"),
        "stream_norm": {**rmsnorm(config), "weight": False},
    }
