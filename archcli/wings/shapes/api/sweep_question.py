"""The question of `archcli sweep` and `archcli.sweep`, and the search that answers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from math import prod
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from archcli.api.asking.question import Option, count_option
from archcli.api.asking.spread import ClusterOptions
from archcli.errors import ArchError, Problem, quote
from archcli.load import load
from archcli.measure.kvcache.kvcache import needed_sizes
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.base import ends_in
from archcli.modules.spec.values import AboveZero, Conversion, refused
from archcli.query.condition import parse_condition
from archcli.query.expression import Expression, parse_expression
from archcli.wings.shapes.api.slow_figures import SLOW
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.shapes.grid import (
    VARY,
    Axis,
    CandidateGrid,
    Structure,
    check_size,
    parse_axis,
)
from archcli.wings.shapes.symbolic.shapes.report import SweepInputs
from archcli.wings.shapes.symbolic.shapes.search import (
    SweepQuestion,
)
from archcli.wings.shapes.symbolic.shapes.terms import SweepNames, check_ties
from archcli.wings.shapes.symbolic.symbols import fields_named, has_size

S = TypeVar("S")
T = TypeVar("T")
TIE, MINIMIZE, MAXIMIZE, WHERE, SHOW = "--tie", "--minimize", "--maximize", "--where", "--show"
MOST_STRUCTURES = 1000
UNPUBLISHED: dict[str, Any] = {
    "source": "",
    "series": "",
    "sibling_of": "",
    "released": None,
    "published": {},
    "published_in": None,
}
"""Fields that tell of a published model, as one of another shape has them: empty."""


def _texts(value: Any) -> tuple[str, ...]:
    """Several texts, or one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) for text in value):
        raise refused(value, "a list of texts")
    return tuple(value)


def _axes(value: Any) -> tuple[str, ...]:
    """Texts NAME=VALUES, or a mapping from names to values: {"d_ff": range(1024, 4097, 256)}."""
    if not isinstance(value, Mapping):
        return _texts(value)
    return tuple(
        f"{name}={taken if isinstance(taken, str) else _listed(taken)}" for name, taken in value.items()
    )


def _listed(taken: Any) -> str:
    if not isinstance(taken, Iterable):
        raise refused(taken, "a list of values")
    return ",".join(map(str, taken))


def as_folder(value: Any) -> Path | None:
    """A path of a text; None without one."""
    if value is not None and not isinstance(value, str | PathLike):
        raise refused(value, "a folder")
    return None if value is None else Path(value)


TextOrTexts = Annotated[str | Sequence[str], Conversion("a list of texts", _texts)]
VaryAxes = Annotated[str | Sequence[str] | Mapping[str, Any], Conversion("a list of texts", _axes)]
Vary = Annotated[
    VaryAxes,
    Option(
        "A field and what it takes: d_model=1024:8192:128 (the end belongs to it), n_layers=16,24,32, "
        "attention.kind=gqa,mqa. Repeatable: all combinations.",
        metavar="NAME=VALUES",
    ),
]
Tie = Annotated[
    TextOrTexts,
    Option(
        "A field that follows from others: d_ff=8/3*d_model@128 is the nearest multiple of 128. Repeatable.",
        metavar="NAME=EXPRESSION",
    ),
]
Where = Annotated[
    TextOrTexts,
    Option(
        "Only candidates that meet it: params in 7e9±1%, kv_bytes(context=32768) <= 1GiB, aspect_ratio in "
        "100..150. Repeatable; all must hold.",
        metavar="CONDITION",
    ),
]
Minimize = Annotated[
    TextOrTexts,
    Option(
        "The smallest first: flops_per_token. Of several objectives, the Pareto front.", metavar="EXPRESSION"
    ),
]
Maximize = Annotated[TextOrTexts, Option("The largest first.", metavar="EXPRESSION")]
Show = Annotated[
    TextOrTexts, Option("A further figure as a column: active_params. Repeatable.", metavar="FIGURE")
]
Top = Annotated[AboveZero, count_option("How many candidates to show.")]
Check = Annotated[bool, Option("Drop candidates that `archcli check` would fail.")]
Folder = Annotated[
    Path | str | PathLike[str] | None,
    Conversion("a folder", as_folder),
    Option(
        "Write the candidates that are shown as YAML files, NAME-1.yaml.",
        metavar="DIR",
        reads="text",
        writes=True,
    ),
]


@dataclass(frozen=True)
class SweepOptions(ClusterOptions):
    """Options of `archcli sweep`."""

    model: ModelLike
    _: KW_ONLY
    vary: Vary = ()
    tie: Tie = ()
    where: Where = ()
    minimize: Minimize = ()
    maximize: Maximize = ()
    show: Show = ()
    top: Top = 20
    check: Check = False
    write_yaml: Folder = None


class BuiltSweep(NamedTuple):
    """The question, and what is to be said of kinds: what they take, or why no model can be built of them."""

    question: SweepQuestion
    of_kinds: tuple[str, ...]

    def inputs(self, options: SweepOptions) -> SweepInputs:
        """What was asked, for the report."""
        texts = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(options).items()
            if name not in {"model", "write_yaml", *vars(ClusterOptions())}
        }
        return SweepInputs(texts, self.of_kinds)


def built_sweep(base: Model, options: SweepOptions) -> BuiltSweep:
    """The question of these arguments; ArchError with all that is wrong in them."""
    required("numpy")
    if not options.vary and not options.tie:
        raise ArchError("nothing varies", "such as --vary d_model=1024:8192:128")
    axes = _all(options.vary, parse_axis)
    ties = dict(_all(options.tie, _tie))
    objectives = [
        *((expression, False) for expression in _expressions(options.minimize, MINIMIZE)),
        *((expression, True) for expression in _expressions(options.maximize, MAXIMIZE)),
    ]
    shown = [parse_expression("params"), *_expressions(options.show, SHOW)]
    # by name here, before models are built; by path in `_structure`, as d_ff and ffn.d_ff may be one field
    _require_once([*(axis.name for axis in axes), *(text.partition("=")[0].strip() for text in options.tie)])
    structures, of_kinds = _structures(base, axes, list(ties))
    varied = [axis.name for axis in axes if axis.name not in structures[0].kinds]
    known = SweepNames([*varied, *ties], [structure.model for structure in structures], SLOW)
    check_ties(ties, known, varied)
    where = _all(options.where, lambda text: parse_condition(text, known, f"{WHERE} "))
    question = SweepQuestion(
        tuple(structures),
        known,
        ties,
        tuple(where),
        tuple(objectives),
        tuple(shown),
        options.top,
        breaks_rule if options.check else None,
    )
    check_size(question.candidates)
    _ = question.terms  # which refuses unknown names before anything is counted
    return BuiltSweep(question, of_kinds)


def breaks_rule(model: Model) -> bool:
    """Whether `archcli check` fails for a model: it breaks a rule that is more than information."""
    from archcli.rules.base import Case, Severity
    from archcli.rules.lint import Selection, lint

    findings = lint(Case(model), Selection(), model.ignore)
    return any(finding.rule.severity is not Severity.INFO for finding in findings)


def _all(texts: Iterable[S], parse: Callable[[S], T]) -> list[T]:
    """Every text parsed; ArchError with the problems of all."""
    results: list[T] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            results.append(parse(text))
        except ArchError as error:
            problems += error.problems
    if problems:
        raise ArchError(problems)
    return results


def _tie(text: str) -> tuple[str, Expression]:
    name, equals, expression = text.partition("=")
    if not equals or not name.strip() or not expression.strip():
        hint = "such as d_ff=8/3*d_model@128"
        raise ArchError(Problem("NAME=EXPRESSION is needed", hint, path=f"{TIE} {quote(text)}"))
    return name.strip(), parse_expression(expression, f"{TIE} {name}=")


def _expressions(texts: Iterable[str], option: str) -> list[Expression]:
    return _all(texts, lambda text: parse_expression(text, f"{option} "))


def _require_once(names: Iterable[str]) -> None:
    """Raise ArchError for a name that is varied or tied twice."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ArchError(Problem("varied or tied twice", "leave one of them out", path=twice[0]))


def _structures(
    base: Model, axes: Sequence[Axis], ties: Sequence[str]
) -> tuple[list[Structure], tuple[str, ...]]:
    """The models of every combination of kinds, each with its grid; and what is to be said of kinds."""
    kinds = [axis for axis in axes if not axis.is_numeric]
    models, of_kinds = _models(base, kinds, axes)
    others = [axis for axis in axes if axis.is_numeric and not any(has_size(m, axis.name) for _, m in models)]
    if others:  # whole numbers that are no size: a model for each
        _all(others, lambda axis: _require_field(base, axis))
        kinds = [axis for axis in axes if axis in others or not axis.is_numeric]
        models, of_kinds = _models(base, kinds, axes)
    sized = [axis for axis in axes if axis not in kinds]
    missing = [name for name in ties if not any(has_size(model, name) for _, model in models)]
    for name in missing:
        fields_named(models[0][1], name)  # which says what there is
    return [_structure(model, texts, sized, ties) for texts, model in models], of_kinds


def _require_field(base: Model, axis: Axis) -> None:
    """Raise ArchError for a name that no field has, once for all of its values."""
    text = f"{axis.name}={axis.values[0]}"
    try:
        load(base, [text])
    except ArchError as error:
        raise ArchError(Problem(it.what, it.hint, path=f"{VARY} {text}") for it in error.problems) from None


def _structure(model: Model, kinds: dict[str, str], axes: Sequence[Axis], ties: Sequence[str]) -> Structure:
    sized = tuple(axis for axis in axes if has_size(model, axis.name))
    names = [*(axis.name for axis in sized), *(name for name in ties if has_size(model, name))]
    paths = {name: fields_named(model, name) for name in names}
    _require_once(path for of_name in paths.values() for path in of_name)
    return Structure(model.replace(**UNPUBLISHED), kinds, CandidateGrid(sized), paths)


def _models(
    base: Model, kinds: Sequence[Axis], axes: Sequence[Axis]
) -> tuple[list[tuple[dict[str, str], Model]], tuple[str, ...]]:
    """(kinds, model) of every combination that a model can be built of; what they take, why others cannot."""
    if prod(len(axis.values) for axis in kinds) > MOST_STRUCTURES:
        raise ArchError(f"{VARY} names more than {MOST_STRUCTURES:,} structures", "list fewer kinds")
    models, problems = [], []
    taken: dict[str, str] = {}
    firsts = [f"{axis.name}={axis.values[0]}" for axis in axes if axis not in kinds]
    for values in product(*(axis.values for axis in kinds)):
        texts = {axis.name: str(value) for axis, value in zip(kinds, values, strict=True)}
        try:
            models.append((texts, _of_kinds(base, texts, firsts, taken)))
        except ArchError as error:
            reasons = "; ".join(dict.fromkeys(problem.what for problem in error.problems))
            problems.append(Problem(reasons, error.problems[0].hint, path=_typed(texts)))
    if not models:
        raise ArchError(problems)
    left_out = (f"{problem.path} is left out: {problem.what}." for problem in problems)
    return models, (*taken.values(), *left_out)


def _of_kinds(base: Model, texts: dict[str, str], firsts: Sequence[str], taken: dict[str, str]) -> Model:
    """The model of these kinds; what attention needs beside its kind goes into `taken`, in words."""
    try:
        return _loaded(base, _settings(texts), firsts)
    except ArchError:
        # attention.kind=mla alone lacks the sizes of its latents: `archcli kvcache` knows usual ones
        needs = {name: needed_sizes(base, name, kind) for name, kind in texts.items()}
        if not any(needs.values()):
            raise
    kinds = {f"{_parent(path)}.kind": texts[name] for name, sizes in needs.items() for path in sizes}
    others = {name: kind for name, kind in texts.items() if not needs[name]}
    sizes = {path: str(size) for of_name in needs.values() for path, size in of_name.items()}
    model = _loaded(base, _settings(kinds | sizes | others), firsts)
    varied = [first.partition("=")[0].split(".") for first in firsts]
    for name, of_name in needs.items():
        # a size that is varied takes its values from --vary
        defaults = {
            path: size for path, size in of_name.items() if not any(ends_in(path, it) for it in varied)
        }
        shown = dict.fromkeys(f"{path.rpartition('.')[2]} {size:,}" for path, size in defaults.items())
        if shown:
            note = f"{_typed({name: texts[name]})} takes {', '.join(shown)}, as archcli kvcache compares it"
            taken[name + texts[name]] = f"{note}; --vary them for others."
    return model


def _settings(texts: dict[str, str]) -> list[str]:
    return [f"{name}={text}" for name, text in texts.items()]


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _loaded(base: Model, sets: Sequence[str], firsts: Sequence[str]) -> Model:
    """The model with these settings; where it lacks a field that is varied, with its first value."""
    try:
        return load(base, sets)
    except ArchError:
        if not firsts:
            raise
        try:
            return load(base, [*sets, *firsts])
        except ArchError:
            return load(base, sets)  # raises the mistake that is the user's


def _typed(texts: dict[str, str]) -> str:
    return f"{VARY} {' '.join(f'{name}={text}' for name, text in texts.items())}"
