"""Feed-forward networks of one kind for all tokens: gated and ungated."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.activations import activation
from archcli.load.huggingface.parts.attention import Flag
from archcli.load.huggingface.value import ConfigValue, Mapped


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
