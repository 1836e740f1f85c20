"""Targets of peft's target_modules: matched against the modules of the base model's class.

A matrix that the class holds for several projections has one A (`mixer.q+mixer.k+mixer.v`). Experts are one
parameter in transformers 5, and a linear layer each in classes of transformers 4; what is counted is what
peft makes of transformers 5's class, and of the older class only where peft refuses the newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.load.foreign.class_names import ClassNames
from archcli.load.foreign.fused import fused_targets
from archcli.load.foreign.matrices import Matrix, all_matrices
from archcli.load.foreign.variants import RankAndScale, Variants, is_meant
from archcli.load.huggingface.config import short_repr
from archcli.load.huggingface.weights.patterns import tells_layers_apart
from archcli.modules import Model
from archcli.modules.adapters.lora import HEAD, means
from archcli.modules.models.layers import LayerIndex

ALL = "all-linear"
"""peft's word for every linear layer but the head."""
OF_MAMBA = ("mamba", "mamba2", "falcon_mamba", "falcon_h1", "nemotron_h")
"""Types of which peft refuses out_proj: their fast pass reads the weight past an adapter."""


class TargetError(Exception):
    """Adapter targets that cannot be counted, with a proposal."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what, self.hint = what, hint


class MeantModules(NamedTuple):
    """The meaning of target_modules in archcli's words.

    targets, rules: `lora.targets` and `lora.rules`. absent: entries that name no module.
    trained: the numbers of all adapters.
    apart: those if each expert had adapters of its own; None where it makes no difference.
    refusal: why the adapters are those of transformers 4's class; empty where they are not.
    """

    targets: list[str]
    rules: list[dict[str, Any]]
    absent: list[str]
    trained: Number
    apart: Number | None = None
    refusal: str = ""


Choice = Callable[[Matrix, Sequence[str]], RankAndScale | None]
"""The setting of the adapter of a matrix by its names in a layer; None where it has none."""


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


class TargetQuestion(NamedTuple):
    """Targets with the settings of their adapters, and the matrices that they are asked of."""

    targets: str | Sequence[str]
    variants: Variants
    matrices: Sequence[Matrix]
    names: ClassNames

    @property
    def is_every(self) -> bool:
        """Whether the targets are peft's word for every linear layer."""
        return self.targets in (ALL, [ALL])

    def is_meant(self, matrix: Matrix, names: Sequence[str]) -> bool:
        """Whether a matrix is meant by these names."""
        if self.is_every:
            return matrix.word != HEAD and not matrix.is_table
        return is_meant(names, self.targets)

    def answer(self, choice: Choice, matrices: Sequence[Matrix]) -> MeantModules:
        """The adapters of the chosen matrices. Raises TargetError for none."""
        every = [_chosen(matrix, choice) for matrix in matrices]
        linear = [it for it in every if it.is_adapted]
        absent = [] if isinstance(self.targets, str) else [it for it in self.targets if self._is_absent(it)]
        if not linear:
            shown = short_repr(
                self.targets if isinstance(self.targets, str) else (absent or [*self.targets])[0]
            )
            raise TargetError(f"{shown} of target_modules is no linear layer", self.hint)
        meant = _targets([it.matrix for it in linear], matrices)
        rules = [*_rules(every, self.variants.usual_setting)]
        return MeantModules(meant, rules, absent, sum(it.trained() for it in linear))

    @property
    def hint(self) -> str:
        """The linear layers of the model."""
        can_be_named = (it for it in self.matrices if not it.is_table and (it.is_linear or it.was_linear))
        return f"it has {', '.join(dict.fromkeys(it.names[0][0].rpartition('.')[2] for it in can_be_named))}"

    def _is_absent(self, target: str) -> bool:
        return not any(is_meant(names, [target]) for matrix in self.matrices for names in matrix.names)


def adapted_by(
    targets: str | Sequence[str], model: Model, names: ClassNames, variants: Variants, dropout: float = 0.0
) -> MeantModules:
    """The adapters of a model. TargetError where the targets mean nothing, or peft refuses them."""
    apart = variants.are_any or (targets != ALL and any(map(tells_layers_apart, _listed(targets))))
    matrices = [*all_matrices(model, names, LayerIndex(model), every_layer=apart)]
    question = TargetQuestion(targets, variants, matrices, names)
    _check_modules(question)
    older = _older(question)
    try:
        newer = _newer(question, dropout)
    except TargetError as error:
        if older is None:
            raise
        return older._replace(refusal=error.what)
    others = older.trained if older is not None else _apart(question)
    return newer if others == newer.trained else newer._replace(apart=others)


def _newer(question: TargetQuestion, dropout: float) -> MeantModules:
    """The adapters of transformers 5's class. TargetError where peft refuses."""
    matrices, variants = question.matrices, question.variants
    fused = fused_targets(question.targets, question.names.kind, matrices, dropout, every=question.is_every)
    if fused.refusal:
        raise TargetError(f"peft refuses {fused.refusal}", question.hint)

    def choice(matrix: Matrix, names: Sequence[str]) -> RankAndScale | None:
        is_taken = any(name.rpartition(".")[2] in fused.taken for name in names)
        if is_taken or (matrix.row.experts and not matrix.is_linear):
            return fused.setting(matrix, names, variants)
        return variants.setting_of(names) if matrix.is_linear and question.is_meant(matrix, names) else None

    return question.answer(choice, [fused.held(matrix, matrices) for matrix in matrices])


def _older(question: TargetQuestion) -> MeantModules | None:
    """The adapters as in transformers 4, whose experts are modules apart; None without any of experts."""

    def choice(matrix: Matrix, names: Sequence[str]) -> RankAndScale | None:
        is_linear = matrix.is_linear or matrix.was_linear
        return question.variants.setting_of(names) if is_linear and question.is_meant(matrix, names) else None

    is_routed = any(it.is_routed and it.was_linear and choice(it, it.names[0]) for it in question.matrices)
    return question.answer(choice, question.matrices) if question.names.experts_apart and is_routed else None


def _apart(question: TargetQuestion) -> Number:
    """The trained numbers if every expert and router had adapters of its own."""

    def choice(matrix: Matrix, names: Sequence[str]) -> RankAndScale | None:
        can_be = matrix.is_linear or matrix.is_routed
        return question.variants.setting_of(names) if can_be and question.is_meant(matrix, names) else None

    return sum(_chosen(matrix, choice).trained() for matrix in question.matrices)


def _check_modules(question: TargetQuestion) -> None:
    """TargetError for what peft refuses: a module of several layers, or a matrix read past its adapter."""
    if question.names.kind in OF_MAMBA and any(
        name.endswith("out_proj")
        and question.is_meant(matrix, [name])
        and question.variants.setting_of([name])
        for matrix in question.matrices
        for name in matrix.names[0]
    ):
        what = "peft refuses out_proj of a Mamba layer, whose fast pass reads the weight past an adapter,"
        raise TargetError(what, "leave it out of target_modules")
    if question.is_every:
        return
    foreign = (
        (it, name) for it in question.matrices if it.is_foreign for names in it.names for name in names
    )
    refused = next((name for matrix, name in foreign if question.is_meant(matrix, [name])), None)
    if refused is not None:
        raise TargetError(f"peft refuses {refused}, which is of a class of its own,", question.hint)
    adapted_names = {name for matrix in question.matrices for names in matrix.names for name in names}
    # a router may go by the name of the module that it is in
    routed = {name for it in question.matrices if it.is_routed for names in it.names for name in names}
    parents = {name[:end] for name in adapted_names for end in range(len(name)) if name[end] == "."} - routed
    for target in [question.targets] if isinstance(question.targets, str) else question.targets:
        targets = target if isinstance(question.targets, str) else [target]
        meant = [name for name in parents if not name[-1].isdigit() and is_meant([name], targets)]
        if meant:
            what = f"{short_repr(target)} of target_modules means the module {min(meant)}, which peft refuses"
            raise TargetError(what, question.hint)


def _listed(targets: str | Sequence[str]) -> Sequence[str]:
    return [targets] if isinstance(targets, str) else targets


def _chosen(matrix: Matrix, choice: Choice) -> Chosen:
    numbers = matrix.numbers
    called = matrix.names if len(matrix.names) == len(numbers) else matrix.names[:1] * len(numbers)
    # what is asked of the same names has one answer
    known = {names: choice(matrix, names) for names in dict.fromkeys(called)}
    return Chosen(matrix, dict(zip(numbers, (known[names] for names in called), strict=True)))


def _rules(every: Sequence[Chosen], usual: RankAndScale) -> Iterator[dict[str, Any]]:
    """The rules of `lora` for layers with other adapters than most, or without any."""
    tails = {it.matrix.tail for it in every if it.is_adapted}
    by_setting: dict[tuple[str, RankAndScale | None], list[int | None]] = {}
    settings = [
        (it.matrix.tail, number, setting)
        for it in every
        if it.matrix.tail in tails
        for number, setting in it.settings.items()
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
        of_run = [number for _, number in run]
        yield str(of_run[0]) if len(of_run) == 1 else f"{of_run[0]}-{of_run[-1]}"


def _targets(linear: Sequence[Matrix], matrices: Sequence[Matrix]) -> list[str]:
    """The shortest names for these matrices: `q` if it means every q, else `attention.q`."""
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
