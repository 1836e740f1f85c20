"""Targets of peft's target_modules: matched against the modules of the base model's class.

A matrix that the class holds for several projections has one A (`mixer.q+mixer.k+mixer.v`). Experts that it
holds as one parameter are no linear layers, which peft does not adapt by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archcli.arith import Number
from archcli.graph import Row
from archcli.load.foreign.class_names import ClassNames
from archcli.load.huggingface.config import short_repr
from archcli.load.huggingface.weights.bounded import BoundedRegex
from archcli.load.huggingface.weights.map import WeightMap
from archcli.load.huggingface.weights.modules import MOST_NUMBERED, is_module, module_names, stored_together
from archcli.load.huggingface.weights.patterns import below_wrappers, tells_layers_apart
from archcli.modules import Model
from archcli.modules.adapters.lora import HEAD, ROUTER, TABLE, means, target_of
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline

ALL = "all-linear"
"""peft's word for every linear layer but the head."""
LAYER = re.compile(r"^(.*\.)?layers\.\d+\.")

IN_ROUTER = re.compile(r"\.(router|gate)\.(proj|layer|wg|gate|classifier)$")
"""Routers that are a linear layer within a module: Gemma 4's; others are a module with a parameter."""


class TargetError(Exception):
    """Targets that cannot be counted: what is wrong, and what would do."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


class Matrix(NamedTuple):
    """A matrix that adapters may stand beside.

    tail: its path below its layer, as a target names it (`mixer.q`).
    together: the tails of all matrices that lie in one with it, in their order.
    names: those of its module in the class, of each layer.
    is_linear: the class has it as a linear layer, which peft can adapt.
    """

    tail: str
    word: str
    together: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    row: Row
    is_linear: bool

    @property
    def can_be_named(self) -> bool:
        """Whether it is a linear layer, and no table."""
        return self.is_linear and self.word != TABLE


class MeantModules(NamedTuple):
    """What target_modules mean: `lora.targets`, entries that mean nothing, and what is trained.

    trained: the numbers of all adapters of rank 1. with_experts: those if every expert had its own, too.
    without_experts: those beside experts and routers.
    """

    targets: list[str]
    absent: list[str]
    trained: Number
    with_experts: Number
    without_experts: Number

    @property
    def has_experts(self) -> bool:
        """Whether experts or routers are among what is trained."""
        return bool(self.trained != self.without_experts)


def adapted_by(stated: str | Sequence[str], model: Model, names: ClassNames) -> MeantModules:
    """The targets of a model. TargetError where they differ by layer, or mean nothing."""
    patterns = [stated] if isinstance(stated, str) else stated
    apart = stated != ALL and any(map(tells_layers_apart, patterns))
    matrices = [*_matrices(model, names, every_layer=apart)]
    chosen = [matrix for matrix in matrices if _is_chosen(matrix, stated)]
    linear = [matrix for matrix in chosen if matrix.is_linear]
    tails = {matrix.tail for matrix in linear}
    mixed = next((matrix for matrix in matrices if matrix.tail in tails and matrix not in linear), None)
    if mixed is not None and mixed.is_linear:
        what = f"target_modules choose {mixed.tail} in some layers alone"
        raise TargetError(what, "adapters of all layers alike are counted")
    absent = [] if isinstance(stated, str) else [name for name in stated if not _means_any(name, matrices)]
    if not linear:
        leaves = dict.fromkeys(it.names[0][0].rpartition(".")[2] for it in matrices if it.can_be_named)
        shown = short_repr(stated if isinstance(stated, str) else (absent or [*stated])[0])
        raise TargetError(f"{shown} of target_modules is no linear layer", f"it has {', '.join(leaves)}")
    layers = LayerIndex(model)
    dense = [matrix for matrix in chosen if not matrix.row.experts and matrix.word != ROUTER]
    trained = (_trained(some, layers) for some in (linear, chosen, dense))
    return MeantModules(_targets(linear, matrices), absent, *trained)


def _matrices(model: Model, names: ClassNames, *, every_layer: bool) -> Iterator[Matrix]:
    """All matrices that can have adapters, a row of several layers once, with the names of every layer."""
    layers = LayerIndex(model)
    for row in outline(model):
        word = target_of(row.op)
        if word is None or len(layers.stored_span(row)) > MOST_NUMBERED:
            continue
        experts = bool(row.experts)
        together = stored_together(row.path, names.weights, experts=experts)
        # of experts that lie in one parameter only adapters of each by itself are asked about
        together = (f"{row.path}.weight",) if experts else together
        paths = layers.stored_paths(row)[: None if every_layer else 1] or [row.path]
        called = [_called(path, row, names.weights) for path in paths]
        is_linear = word == TABLE or is_module(row.path, names.weights)
        if experts or word == ROUTER:
            is_linear = names.experts_apart or all(IN_ROUTER.search(name) for of in called for name in of)
        yield Matrix(
            _tail(row.path),
            word,
            tuple(_tail(path.removesuffix(".weight")) for path in together),
            tuple(called),
            row,
            is_linear,
        )


def _called(path: str, row: Row, weights: WeightMap) -> tuple[str, ...]:
    """The names of a matrix's module; of experts in one parameter also what each by itself would have."""
    names = module_names(path, weights, experts=bool(row.experts))
    return (*names, *(f"{name.rpartition('.')[0]}.0.{row.op.name}" for name in names if row.experts))


def _tail(path: str) -> str:
    """The path of a matrix below its layer, in the words of `lora.targets`."""
    place, _, name = LAYER.sub("", path).rpartition(".")
    word = {"tokens": TABLE}.get(name, name.removesuffix("_proj"))
    return f"{place}.{word}" if place and word != TABLE else word


def _is_chosen(matrix: Matrix, stated: str | Sequence[str]) -> bool:
    """Whether a matrix is meant in every layer; TargetError where it is in some alone."""
    if stated in (ALL, [ALL]):
        return matrix.word not in (HEAD, TABLE)
    chosen = {_is_meant(names, stated) for names in matrix.names}
    if len(chosen) > 1:
        what = f"target_modules {short_repr(stated)} name some layers alone"
        raise TargetError(what, "adapters of all layers alike are counted")
    return chosen == {True}


def _is_meant(names: Sequence[str], stated: str | Sequence[str]) -> bool:
    """peft's rule: a list names the last steps of a module's name, a pattern all of it."""
    if isinstance(stated, str):
        expression = BoundedRegex(stated)
        return any(expression.match(called, whole=True) for name in names for called in below_wrappers(name))
    return any(name == target or name.endswith(f".{target}") for name in names for target in stated)


def _means_any(target: str, matrices: Sequence[Matrix]) -> bool:
    return any(_is_meant(names, [target]) for matrix in matrices for names in matrix.names)


def _targets(linear: Sequence[Matrix], matrices: Sequence[Matrix]) -> list[str]:
    """The fewest words that mean these matrices: q where every q is meant, else attention.q."""
    groups = dict.fromkeys(matrix.together for matrix in linear)
    meant = {matrix.tail for matrix in linear}
    targets = []
    for group in groups:
        last = [tail.rpartition(".")[2] for tail in group]
        ambiguous = any(
            matrix.word in last and (matrix.tail not in meant or _lasts(matrix) != last)
            for matrix in matrices
        )
        targets.append("+".join(group if ambiguous else last))
        _refuse_ambiguous(targets[-1], meant, matrices)
    return list(dict.fromkeys(targets))


def _lasts(matrix: Matrix) -> list[str]:
    return [tail.rpartition(".")[2] for tail in matrix.together]


def _refuse_ambiguous(target: str, meant: set[str], matrices: Sequence[Matrix]) -> None:
    for matrix in matrices:
        place = matrix.row.path.rpartition(".")[0]
        if matrix.tail not in meant and means(target, place, matrix.word):
            what = f"adapters of {target} without {matrix.tail} cannot be told apart"
            raise TargetError(what, "state lora.targets of a YAML")


def _trained(matrices: Sequence[Matrix], layers: LayerIndex) -> Number:
    """The numbers of adapters of rank 1: inputs of each A, which is one for several, and all outputs."""
    total: Number = 0
    for matrix in matrices:
        out, *inputs = matrix.row.weights["weight"]
        width = inputs[-1] if matrix.tail == matrix.together[0] else 0
        copies = matrix.row.experts.n_experts if matrix.row.experts else 1
        total += len(layers.stored_span(matrix.row)) * copies * (out + width)
    return total
