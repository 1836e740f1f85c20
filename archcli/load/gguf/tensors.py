"""The tensors that a GGUF file lists, compared with the weights that are counted."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from math import prod

from archcli.arith import Shape
from archcli.errors import ArchError, Problem
from archcli.load.gguf.arch import Arch, Names
from archcli.load.gguf.header import Header, TensorInfo
from archcli.modules import Model
from archcli.modules.blocks.reused_keys import source_of
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline

HALF, KIND = r"(?:(?P<half>enc|dec)\.)?", r"\.(?P<kind>weight|bias)"
LAYER = re.compile(
    HALF
    + r"blk\.(?P<layer>\d{1,6})\.(?P<stem>\w+?(?:\.[a-z]\w*?)??)(?:\.(?P<expert>\d{1,6}))?(?:"
    + KIND
    + ")?"
)
WHOLE = re.compile(HALF + r"(?P<stem>\w+)" + KIND)
WHOLE_NAMES = (
    *(".weight", ".dt_bias", ".A_log", ".scan.D", ".scale"),
    *(".base", ".places", ".experts_of"),
)
"""Endings of archcli's names that are complete; others take .weight or .bias from the stored tensor."""

HALVES = {"enc": "encoder.", "dec": "decoder.", None: ""}

MODEL_TENSORS: dict[str, Names] = {
    "token_embd": "embedding.tokens",
    "position_embd": "embedding.positions",
    "token_types": "embedding.token_types",
    "token_embd_norm": "embedding.norm",
    "output_norm": "final_norm",
    "output": "lm_head",
}
TENSORS: dict[str, Names] = {
    "attn_norm": "attention_norm",
    "attn_qkv": ("attention.q_proj", "attention.k_proj", "attention.v_proj"),
    **{f"attn_{part}": f"attention.{part}_proj" for part in "qkv"},
    **{f"attn_{part}_norm": f"attention.{part}_norm" for part in "qk"},
    "attn_output": "attention.o_proj",
    "attn_sinks": "attention.sinks",
    "attn_q_a": "attention.q_a_proj",
    "attn_q_a_norm": "attention.q_a_norm",
    "attn_q_b": "attention.q_b_proj",
    "attn_kv_a_mqa": "attention.kv_a_proj",
    "attn_kv_a_norm": "attention.kv_a_norm",
    "attn_kv_b": "attention.kv_b_proj",
    "attn_k_b": "attention.kv_b_proj",
    "attn_v_b": "attention.kv_b_proj",
    "ffn_norm": "ffn_norm",
    "ffn_gate_inp": "ffn.router",
    "ffn_gate_inp_shexp": "ffn.shared_gate",
    "ffn_gate_up_exps": ("ffn.experts.gate_proj", "ffn.experts.up_proj"),
    **{
        f"ffn_{part}{theirs}": f"ffn.{ours}{part}_proj"
        for part in ("gate", "up", "down")
        for theirs, ours in (("", ""), ("_exps", "experts."), ("_shexp", "shared."))
    },
}
"""A tensor of a layer, and the archcli weights that it holds, one after the other.

Several tensors may make up one weight.
"""

BUFFERS: dict[str, str] = {
    "rope_freqs": "factors of the rotary frequencies",
    "rope_factors_long": "factors of the rotary frequencies",
    "rope_factors_short": "factors of the rotary frequencies",
    "attn_rot_embd": "rotary frequencies",
    "layer_output_scale": "factors on what layers return, buffers",
    "exp_probs_b": "correction biases of the router, a buffer",
}
"""Tensors that are no parameters."""

T5: dict[str, Names] = {
    "attn_o": "attention.o_proj",
    "cross_attn_norm": "cross_attention_norm",
    **{f"cross_attn_{part}": f"cross_attention.{part}_proj" for part in "qkvo"},
}
"""Tensors of a layer whose file has two halves."""


def buffer(name: str) -> str:
    """What a tensor that is not a parameter holds; empty for a parameter."""
    match = LAYER.fullmatch(name) or WHOLE.fullmatch(name)
    stem = match["stem"] if match else ""
    return f"{stem} ({BUFFERS[stem]})" if stem in BUFFERS else ""


def weights_of(name: str, arch: Arch) -> tuple[str, ...]:
    """The names of the archcli weights in a tensor; none for an unknown tensor."""
    match = LAYER.fullmatch(name) or WHOLE.fullmatch(name)
    if match is None:
        return ()
    groups = match.groupdict()
    half, stem = HALVES[groups["half"]], groups["stem"]
    # T5: the first layer of a half holds the table of distances that all its layers read
    if stem == "attn_rel_b":
        return (f"{half}score_bias.weight",)
    if "layer" not in groups:
        # T5: token_embd serves both halves, and only the final norm is one of each
        known = None if half and stem != "output_norm" else arch.tensors.get(stem, MODEL_TENSORS.get(stem))
        wholes = (known,) if isinstance(known, str) else known or ()
        return tuple(f"{half}{_complete(ours, groups['kind'])}" for ours in wholes)
    # until April 2024 files held a tensor for each expert: blk.0.ffn_gate.3.weight
    if groups["expert"] is not None:
        stem = f"{stem}_exps"
    names = arch.tensors.get(stem, TENSORS.get(stem, T5.get(stem) if half else None))
    if names is None:
        return ()
    stems = (names,) if isinstance(names, str) else names
    kind = groups["kind"] or "weight"  # Falcon-H1's ffn_norm has none
    return tuple(f"{half}layers.{groups['layer']}.{_complete(ours, kind)}" for ours in stems)


def _complete(ours: str, kind: str) -> str:
    """A weight's whole name: most take .weight or .bias from the stored tensor."""
    return ours if ours.endswith(WHOLE_NAMES) else f"{ours}.{kind}"


ATTENTION = re.compile(r"(\blayers\.\d+\.)attention(\.|_norm\b)")
OWN_KEYS = re.compile(r"layers\.(\d+)\.(?:attention|mixer)\.[kv]_(?:proj|norm)\.\w+")
ATTENTION_NORM = re.compile(r"(\blayers\.\d+\.)attention_norm\.")
IN_LAYER = re.compile(r"blk\.(\d{1,6})\..*")
# fmt: off
# the gaps are whole numbers (24 to 27) and formats that ggml has removed
TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS",
    17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
    28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}
# fmt: on
"""ggml.h of github.com/ggml-org/ggml, `enum ggml_type`."""

# F32, F16, F64 and BF16
UNQUANTIZED = {0, 1, 28, 30}
# problems that a message lists
MOST_NAMED = 8
STRANGE = "is not among the weights of the architecture"

Theirs = list[tuple[str, TensorInfo]]


def compare(model: Model, header: Header, arch: Arch, file: str, n_layers: int) -> Iterator[str]:
    """Notes on tensors besides the counted weights; ArchError where a shape differs.

    Layers from `n_layers` on predict further tokens: their tensors are not compared.
    """
    ours = dict(counted_weights(model))
    stored: dict[tuple[str, ...], Theirs] = {}
    readers = set(_readers(model))
    problems, buffers, beyond, unread = [], set(), 0, 0
    for name, tensor in header.tensors.items():
        # a buffer of most families is a parameter of some (exp_probs_b of ERNIE 4.5): then it is compared
        names = as_counted(weights_of(name, arch), ours)
        if (no_parameter := buffer(name)) and not names:
            buffers.add(no_parameter)
        elif (layer := IN_LAYER.fullmatch(name)) and int(layer[1]) >= n_layers:
            beyond += prod(tensor.shape)
        elif names and all(_is_unread(weight, readers) for weight in names):
            unread += prod(tensor.shape)
        elif names:
            stored.setdefault(names, []).append((name, tensor))
        else:
            problems.append(f"{name} {list(tensor.shape)} {STRANGE}")
    for names, theirs in stored.items():
        problems += _differing([ours.pop(name, None) for name in names], theirs)
    # last, as the comparisons above pop what a tensor was found for
    problems += [f"no tensor for {name} {list(shape)}" for name, shape in ours.items()]
    if problems:
        raise _mismatch(problems, file)
    yield from _notes(header, sum(map(len, stored.values())), buffers, beyond)
    if unread:
        yield f"keys and values of layers that read those of others are not counted: {unread:,} parameters"


def _readers(model: Model) -> Iterator[int]:
    """The layers that read the keys and values of others; a file may hold theirs all the same."""
    layers = LayerIndex(model)
    for layer in layers:
        if any(source_of(mixer) is not None for _, mixer in layer.mixers()):
            yield from layers.span(layer.path)


def _is_unread(name: str, readers: Container[int]) -> bool:
    """Whether a weight makes keys or values in a layer that reads those of another layer."""
    match = OWN_KEYS.fullmatch(name)
    return match is not None and int(match[1]) in readers


def as_counted(names: tuple[str, ...], ours: Container[str]) -> tuple[str, ...]:
    """The names under which the model has these weights: a layer may have a mixer instead of attention."""
    mixing = tuple(ATTENTION.sub(r"\1mixer\2", name) for name in names)
    network_only = tuple(ATTENTION_NORM.sub(r"\1ffn_norm.", name) for name in names)
    return next(
        (known for known in (names, mixing, network_only) if any(name in ours for name in known)), mixing
    )


def _differing(ours: list[Shape | None], theirs: Theirs) -> Iterator[str]:
    """Messages on stored tensors whose shapes do not fit the weights they hold."""
    first = f"{theirs[0][0]} {list(theirs[0][1].shape)}" + ("…" if len(theirs) > 1 else "")
    shapes = [shape for shape in ours if shape is not None]
    stored = [tensor.shape for _, tensor in theirs]
    wanted = " and ".join(str(list(shape)) for shape in shapes)
    if len(shapes) < len(ours):
        yield f"{first} {STRANGE}"
    elif len(shapes) == 1 == len(stored):
        if not _is_grouped(*shapes, *stored) and _squeezed(shapes[0]) != _squeezed(stored[0]):
            yield f"{first} should be {wanted}"
    # attn_k_b is stored transposed beside attn_v_b: one weight in several tensors is compared by size alone
    elif sum(map(prod, shapes)) != sum(map(prod, stored)) or (
        len(shapes) > 1 and not _same_input((*shapes, *stored))
    ):
        yield f"{first} should be {wanted}"


def _same_input(shapes: Iterable[Shape]) -> bool:
    """Whether a fused matrix and its parts have the same input width."""
    return len({shape[-1] if len(shape) > 1 else 0 for shape in shapes}) == 1


def _is_grouped(ours: Shape, stored: Shape) -> bool:
    """Whether groups are stored otherwise: a norm's with a row each, matrices one below the other."""
    if len(ours) == len(stored) + 1 > 2:  # noqa: PLR2004  # a stack [g, out, in] as [g out, in]
        return stored == (ours[0] * ours[1], *ours[2:])
    return len(ours) == 1 and len(stored) > 1 and prod(stored) == prod(ours)


def _squeezed(shape: Shape) -> Shape:
    """The shape without axes of length 1."""
    return tuple(length for length in shape if length != 1)


def _mismatch(problems: list[str], file: str) -> ArchError:
    more = [f"and {len(problems) - MOST_NAMED} more"] if len(problems) > MOST_NAMED else []
    listed = "; ".join(problems[:MOST_NAMED] + more)
    what = f"its tensors are not those of the architecture that its metadata describe: {listed}"
    return ArchError(Problem(what, "a variant that is not supported yet?", path=file))


def _notes(header: Header, compared: int, buffers: set[str], beyond: int) -> Iterator[str]:
    """Notes on the comparison: compared weights, buffers, uncounted tensors, and stored formats."""
    yield f"all {compared} weights that the file lists were compared in name and shape"
    if buffers:
        yield f"no parameters: {', '.join(sorted(buffers))}"
    if beyond:
        yield f"layers that predict further tokens are not among the totals: {beyond:,} parameters"
    stored = {tensor.type for tensor in header.tensors.values()} - UNQUANTIZED
    if stored:
        named = ", ".join(sorted(TYPES.get(kind, f"type {kind}") for kind in stored))
        yield f"the file is quantized ({named}): memory and predict begin with its types"


def counted_weights(model: Model) -> Iterator[tuple[str, Shape]]:
    """(name, shape) of every weight of every layer, experts stacked, as a state dict would list them."""
    layers = LayerIndex(model)
    for row in outline(model):
        for kind, shape in row.weights.items():
            stacked = (row.experts.n_experts, *shape) if row.experts else shape
            for path in layers.stored_paths(row):
                yield f"{path}.{kind}", stacked
