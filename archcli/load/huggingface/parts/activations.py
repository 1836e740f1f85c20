"""Activation functions by the names of `transformers.activations.ACT2FN`."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import MISSING, Config, short_repr
from archcli.load.huggingface.value import ConfigValue

ACTIVATIONS: dict[str, Any] = {
    "relu": "relu",
    "relu2": "relu2",
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
