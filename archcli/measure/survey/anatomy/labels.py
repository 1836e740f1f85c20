"""Labels: what is written on a node, by the field's terms."""

from __future__ import annotations

import re

from archcli.graph.wired_tape import WiredRow

ACTIVATIONS = {
    "relu": "ReLU",
    "relu2": "ReLU²",
    "gelu": "GELU",
    "gelu_tanh": "GELU",
    "silu": "SiLU",
    "sigmoid": "σ",
    "log_sigmoid": "log σ",
    "swish": "Swish",
    "xielu": "xIELU",
}
"""Activations as the field writes them; others are called by their names."""
NORMS = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm", "batchnorm": "BatchNorm", "l2norm": "L2 norm"}
PRODUCT = re.compile(r"_(proj|projection|linear|heads)$")
"""What names of products end with, which a trapezoid says already."""


def label_of(row: WiredRow) -> str:
    """What is written on the node of a row: its activation or norm, its sign, or else its name."""
    traits = row.op.traits(*row.inputs)
    if traits.activation is not None:
        return ACTIVATIONS.get(traits.activation, traits.activation)
    if traits.norm is not None:
        return NORMS.get(traits.norm, traits.norm)
    return row.op.sign or short_name(row.path)


def short_name(path: str) -> str:
    """The last step of a path, as a label: `layers.0.attention.q_proj` is q, `kv_a_proj` kv a."""
    name = path.rpartition(".")[2]
    return (PRODUCT.sub("", name) or name).replace("_", " ")


def foreign_label(path: str) -> str:
    """What a value is called that comes from elsewhere: `encoder`, `embedding`, `layer 13`."""
    first, *steps = path.split(".")
    if "layers" in (first, *steps[:1]):
        number = path.partition("layers.")[2].partition(".")[0]
        return f"layer {number}"
    return first.replace("_", " ")
