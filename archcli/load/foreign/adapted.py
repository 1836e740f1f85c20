"""Targets of peft's target_modules: matched against the modules of the base model's class.

A matrix that the class holds for several projections has one A (`mixer.q+mixer.k+mixer.v`). Experts that it
holds as one parameter are no linear layers, which peft does not adapt by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.graph import Row
from archcli.load.foreign.class_names import ClassNames
from archcli.load.foreign.variants import RankAndScale, Variants, is_meant
from archcli.load.huggingface.config import short_repr
from archcli.load.huggingface.weights.map import WeightMap
from archcli.load.huggingface.weights.modules import MOST_NUMBERED, held_together, is_module, module_names
from archcli.load.huggingface.weights.patterns import tells_layers_apart
from archcli.modules import Model
from archcli.modules.adapters.lora import HEAD, ROUTER, TABLE, means, target_of
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline
from archcli.ops import Lookup

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
    outputs: Number
    inputs: Number

    @property
    def can_be_named(self) -> bool:
        """Whether it is a linear layer, and no table."""
        return self.is_linear and self.word != TABLE


class MeantModules(NamedTuple):
    """What target_modules mean: `lora.targets`, `lora.rules`, entries that mean nothing, what is trained.

    trained: the numbers of all adapters. with_experts: those if every expert had its own, too.
    without_experts: those beside experts and routers.
    """

    targets: list[str]
    rules: list[dict[str, Any]]
    absent: list[str]
    trained: Number
    with_experts: Number
    without_experts: Number

    @property
    def has_experts(self) -> bool:
        """Whether experts or routers are among what is trained."""
        return bool(self.trained != self.without_experts)


class Chosen(NamedTuple):
    """A matrix with the setting of its adapters in each layer by number; the number outside is None."""

    matrix: Matrix
    settings: dict[int | None, RankAndScale | None]

    @property
    def is_adapted(self) -> bool:
        """Whether it has adapters in any layer."""
        return any(setting is not None for setting in self.settings.values())

    def trained(self) -> Number:
        """The numbers of its adapters: inputs of each A, which is one for several, and all outputs."""
        matrix = self.matrix
        width = matrix.inputs if matrix.tail == matrix.together[0] else 0
        copies = matrix.row.experts.n_experts if matrix.row.experts else 1
        ranks = sum(setting.rank for setting in self.settings.values() if setting is not None)
        return ranks * copies * (matrix.outputs + width)


def adapted_by(
    targets: str | Sequence[str], model: Model, names: ClassNames, variants: Variants
) -> MeantModules:
    """The adapters of a model. TargetError where the targets mean nothing."""
    apart = variants.are_any or (targets != ALL and any(map(tells_layers_apart, _listed(targets))))
    layers = LayerIndex(model)
    all_matrices = [*_matrices(model, names, layers, every_layer=apart)]
    every = [_chosen(matrix, targets, variants, layers) for matrix in all_matrices]
    chosen = [it for it in every if it.is_adapted]
    linear = [it for it in chosen if it.matrix.is_linear]
    absent = [] if isinstance(targets, str) else [it for it in targets if not _means_any(it, all_matrices)]
    if not linear:
        leaves = dict.fromkeys(it.names[0][0].rpartition(".")[2] for it in all_matrices if it.can_be_named)
        shown = short_repr(targets if isinstance(targets, str) else (absent or [*targets])[0])
        raise TargetError(f"{shown} of target_modules is no linear layer", f"it has {', '.join(leaves)}")
    dense = [it for it in chosen if not it.matrix.row.experts and it.matrix.word != ROUTER]
    trained = (sum(it.trained() for it in some) for some in (linear, chosen, dense))
    meant = _targets([it.matrix for it in linear], all_matrices)
    return MeantModules(meant, [*_rules(every, variants.usual_setting)], absent, *trained)


def _listed(targets: str | Sequence[str]) -> Sequence[str]:
    return [targets] if isinstance(targets, str) else targets


def _chosen(matrix: Matrix, targets: str | Sequence[str], variants: Variants, layers: LayerIndex) -> Chosen:
    numbers = [*layers.stored_span(matrix.row)] if _is_in_layer(matrix.row, layers) else [None]
    called = matrix.names if len(matrix.names) == len(numbers) else matrix.names[:1] * len(numbers)
    # what is asked of the same names has one answer
    known: dict[tuple[str, ...], RankAndScale | None] = {}
    for names in called:
        if names not in known:
            known[names] = variants.setting_of(names) if _is_chosen(matrix, names, targets) else None
    return Chosen(matrix, dict(zip(numbers, (known[names] for names in called), strict=True)))


def _is_in_layer(row: Row, layers: LayerIndex) -> bool:
    return any(row.path.startswith(prefix) for prefix in layers.prefixes)


def _rules(every: Sequence[Chosen], usual: RankAndScale) -> Iterator[dict[str, Any]]:
    """The rules of `lora` for layers whose adapters are not the usual ones, or that have none."""
    tails = {it.matrix.tail for it in every if it.matrix.is_linear and it.is_adapted}
    by_setting: dict[tuple[str, RankAndScale | None], list[int | None]] = {}
    settings = [
        (it.matrix.tail, number, setting)
        for it in every
        for number, setting in it.settings.items()
        if it.matrix.tail in tails
    ]
    known: dict[tuple[str, int | None], RankAndScale | None] = {}
    for tail, number, setting in settings:
        if known.setdefault((tail, number), setting) != setting:
            what = f"target_modules choose {tail} in some modules alone"
            raise TargetError(what, "archcli has one name for several modules of a layer")
        if setting != usual:
            by_setting.setdefault((tail, setting), []).append(number)
    for (tail, setting), numbers in by_setting.items():
        where = (
            {}
            if None in numbers
            else {"layers": ",".join(_spans(sorted(n for n in numbers if n is not None)))}
        )
        rank, alpha = (0, usual.alpha) if setting is None else setting
        yield {"match": tail, "rank": rank, **({} if alpha == usual.alpha else {"alpha": alpha}), **where}


def _spans(numbers: Sequence[int]) -> Iterator[str]:
    """Runs of neighbouring layers: 0-3, 7."""
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        found = [number for _, number in run]
        yield str(found[0]) if len(found) == 1 else f"{found[0]}-{found[-1]}"


def _matrices(model: Model, names: ClassNames, layers: LayerIndex, *, every_layer: bool) -> Iterator[Matrix]:
    """All matrices that can have adapters, a row of several layers once, with the names of every layer."""
    tables = [row for row in outline(model) if isinstance(row.op, Lookup) and "weight" in row.weights]
    for row in outline(model):
        word = target_of(row.op)
        if word is None or len(layers.stored_span(row)) > MOST_NUMBERED:
            continue
        experts = bool(row.experts)
        together = held_together(row.path, names.weights)
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
            *_sizes(row, tables),
        )


def _sizes(row: Row, tables: Sequence[Row]) -> tuple[Number, Number]:
    """The outputs and inputs of a matrix, that of a tied head being its table's."""
    if "weight" in row.weights:
        outputs, *inputs = row.weights["weight"]
        return outputs, inputs[-1]
    entries, width = next((table.weights["weight"] for table in tables), (0, 0))
    return getattr(row.op, "out", entries), width


def _called(path: str, row: Row, weights: WeightMap) -> tuple[str, ...]:
    """The names of a matrix's module; of experts in one parameter also what each by itself would have."""
    names = module_names(path, weights, experts=bool(row.experts))
    return (*names, *(f"{name.rpartition('.')[0]}.0.{row.op.name}" for name in names if row.experts))


def _tail(path: str) -> str:
    """The path of a matrix below its layer, in the words of `lora.targets`."""
    place, _, name = LAYER.sub("", path).rpartition(".")
    word = {"tokens": TABLE}.get(name, name.removesuffix("_proj"))
    return f"{place}.{word}" if place and word != TABLE else word


def _is_chosen(matrix: Matrix, names: Sequence[str], targets: str | Sequence[str]) -> bool:
    """Whether a matrix is meant by these names."""
    if targets in (ALL, [ALL]):
        return matrix.word not in (HEAD, TABLE)
    return is_meant(names, targets)


def _means_any(target: str, matrices: Sequence[Matrix]) -> bool:
    return any(is_meant(names, [target]) for matrix in matrices for names in matrix.names)


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
