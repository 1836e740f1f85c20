"""Words of a drawing: titles of mixers and networks by the field's terms, facts, and labels."""

from __future__ import annotations

import re
from typing import Any

from archcli.graph.wired_tape import WiredRow
from archcli.measure.survey.compare.differences import said_apart
from archcli.wings.drawing.drawn import DrawnNode, Hue, NumberedLine, Statement

GATED = {"silu": "SwiGLU", "swish": "SwiGLU", "gelu": "GeGLU", "gelu_tanh": "GeGLU", "relu": "ReGLU"}
"""Gated networks by their activation (Shazeer 2020, arXiv:2002.05202)."""
WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Za-z])(?=\d)")


def title_of(module: Any) -> str:
    """The title of a mixer or network."""
    return _gated(module, " network") or module.title or _spaced(module)


def short_title(module: Any) -> str:
    """A short title of a mixer or network, for a box."""
    return _gated(module) or module.short_title or module.title or _spaced(module)


def _gated(module: Any, more: str = "") -> str:
    """The name of a gated network; empty for any other module."""
    if module.family != "ffn" or not module.is_gated or module.activation_kind not in GATED:
        return ""
    return GATED[module.activation_kind] + more


def _spaced(module: Any) -> str:
    """The name of a class as words: `ShortConvolution` is Short convolution."""
    first, *others = WORD.sub(" ", type(module).__name__).split(" ")
    return " ".join([first, *(word if word.isupper() else word.lower() for word in others)])


def hue_of(module: Any, nodes: tuple[DrawnNode, ...]) -> Hue:
    """The colour of a part: attention, recurrent mixer, dense network or experts."""
    if module.family != "ffn":
        return "recurrent" if module.group == "recurrent" else "attention"
    return "experts" if any(node.choice is not None for node in nodes) else "dense"


def facts_of(nodes: tuple[DrawnNode, ...], hue: Hue) -> tuple[str, ...]:
    """Two or three facts of a part: its heads, its window or state, its hidden width or experts."""
    lines = [*_heads(nodes), *_masks(nodes), *_states(nodes), *_choices(nodes)]
    return tuple(lines or (_widths(nodes) if hue == "dense" else ()))[:4]


def box_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The facts of a part that its box in a layer repeats: heads or experts, and what tells it apart."""
    heads = lines[: 2 if len(lines) > 1 and " KV head" in lines[1] else 1]
    return (*heads, *(Statement(line.split(", ")[0]) for line in lines if type(line) is Distinction))


class Distinction(Statement):
    """A line on a part of a drawing that has another with equal title and facts."""

    __slots__ = ()


def apart_line(module: Any, another: Any) -> Distinction:
    """What a module states differently from another: `not causal`, `compressor rate 128, no index`."""
    return Distinction(", ".join(said_apart(module, another)))


def _heads(nodes: tuple[DrawnNode, ...]) -> list[str]:
    """`32 query heads`, `8 KV heads`: of the node with the most."""
    headed = [node.heads for node in nodes if node.heads is not None]
    if not any(node.role == "core" and node.mask for node in nodes) or not headed:
        return []
    heads = max(headed, key=lambda heads: heads.count.value)
    if heads.groups is None:
        return [NumberedLine(heads.count, " heads")]
    kv = " KV head" if heads.groups.value == 1 else " KV heads"
    return [NumberedLine(heads.count, " query heads"), NumberedLine(heads.groups, kv)]


def _masks(nodes: tuple[DrawnNode, ...]) -> list[str]:
    masks = [node.mask for node in nodes if node.mask is not None]
    return [NumberedLine(f"{mask.kind} ", mask.window) for mask in masks if mask.window is not None]


def _states(nodes: tuple[DrawnNode, ...]) -> list[str]:
    """`32 heads`, `state 128 × head size 128`; `state of 768` where each channel has a number."""
    states = [held for node in nodes for held in node.held]
    if not states:
        return []
    count, rows, columns = states[0].count, states[0].rows, states[0].columns
    factors = [factor for factor in (count, rows, columns) if factor.value != 1]
    if not factors[1:]:
        return [NumberedLine("state of ", *(factors or [count])[:1])]
    heads = [NumberedLine(count, " heads")] if count.value != 1 else []
    return [*heads, NumberedLine("state ", rows, " × head size ", columns)]


def _choices(nodes: tuple[DrawnNode, ...]) -> list[str]:
    chosen = [node.choice for node in nodes if node.role == "experts" and node.choice is not None]
    shared = ", + shared" if any(node.hue == "shared" for node in nodes) else ""
    return [NumberedLine(choice.chosen, " of ", choice.count, shared) for choice in chosen[:1]]


def _widths(nodes: tuple[DrawnNode, ...]) -> list[str]:
    """The hidden width of a network: of the widest product before the last."""
    products = [node for node in nodes if node.role == "matrix"]
    widths = [node.width for node in products[:-1] if node.width is not None]
    return [NumberedLine("d_ff ", max(widths, key=lambda width: width.value))] if widths else []


ACTIVATIONS = {
    "relu": "ReLU",
    "relu2": "ReLU²",
    "gelu": "GELU",
    "gelu_tanh": "GELU",
    "silu": "SiLU",
    "sigmoid": "σ",
    "log_sigmoid": "log σ",
    "swish": "Swish",
    "quick_gelu": "quick GELU",
    "xielu": "xIELU",
}
"""Activations as the field writes them; others are called by their names."""
NORMS = {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm", "batchnorm": "BatchNorm", "l2norm": "L2 norm"}
LOW_RANK = re.compile(r"(?<=[a-z0-9])_([ab])_proj$")
"""Ending of a product through a narrow latent: `q_a_proj` is q down, `q_b_proj` is q up."""
PRODUCT = re.compile(r"_(proj|projection|linear|heads)$")
"""Endings of a product's name, left out of its label: its trapezoid says so."""
PHRASES = {
    "altup": "AltUp, mixes streams",
    "laurel": "LAuReL, low rank",
    "per layer": "per-layer projection",
    "hyper": "hyper-connection",
    "attention hyper": "hyper-connection",
    "ffn hyper": "hyper-connection",
}
"""Parts of a layer's wiring in words, by their names."""
MASKS = {"top_k": "top", "longformer": "window"}
"""Kinds of mask whose label has a number: `window 4096`, `top 2048`."""


def label_of(row: WiredRow) -> str:
    """The label of a row's node: its activation, norm or sign, else its name."""
    traits = row.op.traits(*row.inputs)
    if traits.activation is not None:
        return ACTIVATIONS.get(traits.activation, traits.activation)
    if traits.norm is not None:
        return NORMS.get(traits.norm, traits.norm)
    return row.op.sign or short_name(row.path)


def short_name(path: str) -> str:
    """The last step of a path, as a label: `layers.0.attention.q_proj` is q, `kv_a_proj` kv down."""
    name = LOW_RANK.sub(lambda end: "_down" if end[1] == "a" else "_up", path.rpartition(".")[2])
    label = (PRODUCT.sub("", name) or name).replace("_", " ")
    return PHRASES.get(label, label)


def foreign_label(path: str) -> str:
    """The label of an input from outside of a layer: `encoder`, `embedding`, `earlier k`."""
    first, *steps = path.split(".")
    if first == "encoder":
        return first
    if "layers" in (first, *steps[:1]):
        # shared keys and values (cross-layer attention): no number, as it differs among the layers drawn here
        return f"earlier {short_name(path).partition(' ')[0]}"
    return first.replace("_", " ")
