"""The tensors that a GGUF file lists, held against the weights that are counted: every one of either has its like in name and shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path

from archcli.arith import Shape
from archcli.errors import ArchError, Problem
from archcli.load.gguf.families import BUFFERS, MODEL_TENSORS, TENSORS, Arch, Names
from archcli.load.gguf.header import Header, Tensor, read
from archcli.modules import Model
from archcli.modules.layers import LayerIndex
from archcli.modules.trace import outline

LAYER = re.compile(
    r"(?:(?P<half>enc|dec)\.)?blk\.(?P<layer>\d{1,6})\.(?P<stem>\w+?)(?:\.(?P<expert>\d{1,6}))?\.(?P<kind>weight|bias)"
)
WHOLE = re.compile(r"(?:(?P<half>enc|dec)\.)?(?P<stem>\w+)\.(?P<kind>weight|bias)")
IN_LAYER = re.compile(r"blk\.(\d{1,6})\..*")
PART = re.compile(r"(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})")
HALVES = {"enc": "encoder.", "dec": "decoder.", None: ""}
T5: dict[str, Names] = {
    "attn_o": "attention.o_proj",
    "cross_attn_norm": "cross_attention_norm",
    **{f"cross_attn_{part}": f"cross_attention.{part}_proj" for part in "qkvo"},
}
TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    6: "Q5_0",
    7: "Q5_1",
    8: "Q8_0",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
}
TYPES |= {
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    17: "IQ2_XS",
    18: "IQ3_XXS",
    19: "IQ1_S",
    20: "IQ4_NL",
    21: "IQ3_S",
}
TYPES |= {
    22: "IQ2_S",
    23: "IQ4_XS",
    28: "F64",
    29: "IQ1_M",
    30: "BF16",
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
}
"""ggml.h of github.com/ggml-org/ggml, `enum ggml_type`."""

UNQUANTIZED = {0, 1, 28, 30}
MOST_NAMED = 8
STRANGE = "is not among the weights of the architecture"

Theirs = list[tuple[str, Tensor]]


def read_whole(path: Path) -> Header:
    """The header of a file; of one part of a model in several, that of all parts, which lie beside it."""
    header = read(path)
    count = header.metadata.get("split.count", 1)
    if not isinstance(count, int) or count <= 1:
        return header
    match = PART.fullmatch(path.stem)
    if match is None or int(match["count"]) != count:
        raise ArchError(
            Problem(
                f"one of {count} parts of a model, under a name that does not say which",
                "NAME-00001-of-…",
                path=str(path),
            )
        )
    files = [path.with_name(f"{match['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1)]
    if absent := [file.name for file in files if not file.is_file()]:
        what = f"one of {count} parts of a model, of which {len(absent)} are not beside it"
        raise ArchError(Problem(what, f"the first that is missing is {absent[0]}", path=str(path)))
    parts = [read(file) for file in files]
    tensors = {name: tensor for part in parts for name, tensor in part.tensors.items()}
    return Header({**header.metadata, **parts[0].metadata}, tensors)


def model_name(path: Path) -> str:
    """What a file is called, without which part of how many it is."""
    match = PART.fullmatch(path.stem)
    return match["stem"] if match else path.stem


def compare(model: Model, header: Header, arch: Arch, file: str, n_layers: int) -> Iterator[str]:
    """Notes of what the file has besides the weights that are counted. ArchError where the two are not of one shape.

    Layers from `n_layers` on predict further tokens: their tensors are not compared.
    """
    ours = dict(_weights(model))
    found: dict[tuple[str, ...], Theirs] = {}
    problems, buffers, beyond = [], set(), 0
    for name, tensor in header.tensors.items():
        match = LAYER.fullmatch(name) or WHOLE.fullmatch(name)
        if match and match["stem"] in BUFFERS:
            buffers.add(f"{match['stem']} ({BUFFERS[match['stem']]})")
        elif (layer := IN_LAYER.fullmatch(name)) and int(layer[1]) >= n_layers:
            beyond += prod(tensor.shape)
        elif match and (names := _names(match, arch)):
            found.setdefault(names, []).append((name, tensor))
        else:
            problems.append(f"{name} {list(tensor.shape)} {STRANGE}")
    for names, theirs in found.items():
        problems += _differing([ours.pop(name, None) for name in names], theirs)
    problems += [f"no tensor for {name} {list(shape)}" for name, shape in ours.items()]
    if problems:
        raise _disagree(problems, file)
    yield from _notes(header, sum(map(len, found.values())), buffers, beyond)


def _names(match: re.Match[str], arch: Arch) -> tuple[str, ...]:
    """The weights of ours that a tensor holds; none where it is none that we know."""
    groups = match.groupdict()
    half, stem = HALVES[groups["half"]], groups["stem"]
    if stem == "attn_rel_b":
        return (f"{half}score_bias.weight",)
    if "layer" not in groups:
        known = MODEL_TENSORS.get(stem)
        known = None if half and stem != "output_norm" else known
        return () if known is None else (f"{half}{known}.{groups['kind']}",)
    if groups["expert"] is not None:
        stem = f"{stem}_exps"
    names = arch.tensors.get(stem, TENSORS.get(stem, T5.get(stem) if half else None))
    each = () if names is None else (names,) if isinstance(names, str) else names
    return tuple(f"{half}layers.{groups['layer']}.{name}.{groups['kind']}" for name in each)


def _differing(ours: list[Shape | None], theirs: Theirs) -> Iterator[str]:
    """What is wrong with the tensors of the file that make up these weights: one of one, one of several, several of one."""
    shown = f"{theirs[0][0]} {list(theirs[0][1].shape)}" + ("…" if len(theirs) > 1 else "")
    shapes, stored = [shape for shape in ours if shape is not None], [tensor.shape for _, tensor in theirs]
    wanted = " and ".join(str(list(shape)) for shape in shapes)
    if len(shapes) < len(ours):
        yield f"{shown} {STRANGE}"
    elif len(shapes) == 1 == len(stored):
        if _plain(shapes[0]) != _plain(stored[0]):
            yield f"{shown} should be {wanted}"
    elif sum(map(prod, shapes)) != sum(map(prod, stored)) or (
        len(shapes) > 1 and not _one_width((*shapes, *stored))
    ):
        yield f"{shown} should be {wanted}"


def _one_width(shapes: Iterable[Shape]) -> bool:
    """Whether a fused matrix and its parts read inputs of one width; biases have none."""
    return len({shape[-1] if len(shape) > 1 else 0 for shape in shapes}) == 1


def _plain(shape: Shape) -> Shape:
    """The shape without axes of one."""
    return tuple(length for length in shape if length != 1)


def _disagree(problems: list[str], file: str) -> ArchError:
    more = [f"and {len(problems) - MOST_NAMED} more"] if len(problems) > MOST_NAMED else []
    what = "its tensors are not those of the architecture that its metadata describe: "
    return ArchError(
        Problem(
            what + "; ".join(problems[:MOST_NAMED] + more), "a variant that is not supported yet?", path=file
        )
    )


def _notes(header: Header, compared: int, buffers: set[str], beyond: int) -> Iterator[str]:
    """What was found: that all agree, what is no parameter, what was not counted, and how the file stores its weights."""
    yield f"all {compared} weights that the file lists were compared in name and shape"
    if buffers:
        yield f"no parameters: {', '.join(sorted(buffers))}"
    if beyond:
        yield f"layers that predict further tokens are not among the totals: {beyond:,} parameters"
    stored = {tensor.type for tensor in header.tensors.values()} - UNQUANTIZED
    if stored:
        named = ", ".join(sorted(TYPES.get(kind, f"type {kind}") for kind in stored))
        yield f"the file is quantized ({named}): parameters are counted, not what they are stored as"


def _weights(model: Model) -> Iterator[tuple[str, Shape]]:
    """Every weight of every layer, experts stacked: what a state dict would list."""
    layers = LayerIndex(model)
    for row in outline(model):
        for kind, shape in row.weights.items():
            whole = (row.experts.n_experts, *shape) if row.experts else shape
            for path in layers.built_paths(row.path):
                yield f"{path}.{kind}", whole
