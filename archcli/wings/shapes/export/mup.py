"""muP: multipliers by which settings tuned on a narrow model hold for a wider one (arXiv:2203.03466).

All of it is read off two forwards, of the model and of its base: a dimension of a tensor in which they differ
is a width, and grows by their ratio. Every matrix of archcli is [out, in], so the last width of a tensor is
its fan-in and the first its fan-out, as in the authors' package `mup`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from archcli.arith import Shape
from archcli.errors import ArchError, quote
from archcli.graph import OpClass, Row
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import tensors
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex

MATRIX = 2
"""A matrix between two widths; none of the rules is for a tensor with three."""
ANOTHER = "a base is the same architecture, with other widths alone"


class Multipliers(NamedTuple):
    """What muP multiplies for a tensor.

    base_shape: its shape in the base. init_std: the standard deviation at the start. adam_lr, sgd_lr: the
    learning rate of Adam (AdamW) and of SGD.
    """

    shape: Shape
    base_shape: Shape
    init_std: float
    adam_lr: float
    sgd_lr: float


def multipliers(name: str, shape: Shape, base_shape: Shape) -> Multipliers:
    """The multipliers of a tensor. Raises ArchError where more than two of its dimensions differ."""
    widths = [n / base for n, base in zip(shape, base_shape, strict=True) if n != base]
    if len(widths) > MATRIX:
        raise ArchError(f"muP has no rule for {name}: its dimensions {base_shape} become {shape}", ANOTHER)
    if len(widths) < MATRIX:
        return Multipliers(shape, base_shape, 1.0, 1.0, *(widths or [1.0]))
    fan_out, fan_in = widths
    return Multipliers(shape, base_shape, fan_in**-0.5, 1 / fan_in, 1 / (fan_in / fan_out))


def mup(model: Model, base: Model, base_name: str) -> dict[str, Any]:
    """Multipliers of each tensor, of each output and of the scores of each attention, by their paths."""
    ours, theirs = tensors(model)[0], tensors(base)[0]
    _require_alike({n: len(s) for n, s in ours.items()}, {n: len(s) for n, s in theirs.items()}, base_name)
    pairs = list(_paired_rows(model, base))
    return {
        "base": base_name,
        "tensors": {name: multipliers(name, shape, theirs[name]) for name, shape in ours.items()},
        "outputs": {path: base / n for path, row, of_base in pairs for n, base in _to_fixed(row, of_base)},
        "attention_scales": {
            path: scale for path, row, of_base in pairs for scale in _attention_scale(row, of_base)
        },
    }


def as_text(answer: Mapping[str, Any]) -> str:
    """The JSON of an answer, with a line for each tensor."""
    tensors = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(of_tensor._asdict())}"
        for name, of_tensor in answer["tensors"].items()
    )
    rest = json.dumps({key: value for key, value in answer.items() if key != "tensors"}, indent=2)
    return f'{rest[:-2]},\n  "tensors": {{\n{tensors}\n  }}\n}}\n'


def _require_alike(ours: Mapping[str, int], theirs: Mapping[str, int], base_name: str) -> None:
    """Raise ArchError for a base without the tensors of the model, or with more."""
    unlike = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if unlike:
        more = f" and {len(unlike) - 1:,} more" if len(unlike) > 1 else ""
        what = f"{quote(base_name)} is no base of the model: they differ in {unlike[0]}{more}"
        raise ArchError(what, ANOTHER)


def _paired_rows(model: Model, base: Model) -> Iterator[tuple[str, Row, Row]]:
    """(path, row, row of the base) of every operation of every layer."""
    of_base, layers = LayerIndex(base), LayerIndex(model)
    base_rows = {path: row for row in shape_pass(base).rows for path in of_base.built_paths(row.path)}
    for row in shape_pass(model).rows:
        for path in layers.built_paths(row.path):
            if path in base_rows:
                if row.experts != base_rows[path].experts:
                    raise ArchError(f"{path} has another number of experts in the base", ANOTHER)
                yield path, row, base_rows[path]


def _to_fixed(row: Row, base: Row) -> Iterator[tuple[int, int]]:
    """(width, width in the base) that a product with a weight maps to something of one size in both.

    The head, the router of a mixture, keys of a fixed number of heads: what `mup.MuReadout` is for.
    """
    parts = row.op.parts(*row.inputs)
    is_product = any(part.op_class is OpClass.CONTRACTION for part in parts) and not row.op.component
    width, narrow = row.inputs[0][-1], base.inputs[0][-1]
    if is_product and width != narrow and row.outputs == base.outputs:
        yield width, narrow


def _attention_scale(row: Row, base: Row) -> Iterator[float]:
    """The factor of scores: that of the base, times the base's width of a head over the model's."""
    scale = base.op.traits(*base.inputs).scale
    if scale is not None:
        yield float(scale * base.inputs[0][-1] / row.inputs[0][-1])
