"""scale: `archcli scale` in Python, and what its command shares with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, NamedTuple

from archcli.api.asking.options import Tokens
from archcli.api.asking.question import Option, asks, count_option, part
from archcli.api.asking.subject import Subject, given
from archcli.load.presets import presets_index
from archcli.load.source import load_text
from archcli.load.spec.written import to_yaml
from archcli.measure.report import Report
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.values import AboveZero, Conversion, accepted
from archcli.render.values import short
from archcli.rules.base import Case
from archcli.rules.lint import Selection, lint
from archcli.units import parse_count
from archcli.wings.shapes.scale.laws import DEFAULT_LAW, LawName
from archcli.wings.shapes.scale.report import scale_report
from archcli.wings.shapes.scale.search import Judge, JudgedModel
from archcli.wings.shapes.scale.shape import unpublished
from archcli.wings.shapes.scale.solve import DEFAULT_BATCH, Hours, ScaleProblem, ScaleSettings
from archcli.wings.shapes.symbolic.symbols import sizes


def _amount(value: Any) -> int | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return parse_count(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _goal(name: str) -> Conversion:
    """An amount as a whole number, 3e9 or "3B"."""
    known = accepted(ScaleSettings)[name]
    return Conversion(known.phrase, lambda value: known.convert(_amount(value)))


Params = Annotated[
    float | str | None,
    _goal("params"),
    count_option("Parameters of the result, all of them also of a mixture: 3e9, 3B."),
]
Compute = Annotated[
    float | str | None,
    _goal("compute"),
    Option(
        "FLOPs of a whole training: scale to the size that a law says is best. 1e21.",
        metavar="FLOPS",
        reads="count",
    ),
]
HoursOption = Annotated[
    Hours | None,
    Option(
        "Hours of training on --device: scale to the size that a law says is best.",
        metavar="HOURS",
        reads="number",
    ),
]
Device = Annotated[
    str | None,
    Option(
        "Of `archcli devices`: 8xh100-sxm. Without it no days are predicted.",
        metavar="[Nx]NAME",
        completes="devices",
    ),
]
Law = Annotated[LawName, Option("Scaling law that splits the budget between parameters and tokens.")]
BatchTokens = Annotated[AboveZero, count_option("Tokens of a training step, of all devices.")]
Keep = Annotated[Sequence[str], Option("A size that stays as it is: n_kv_heads. Repeatable.", metavar="NAME")]


@dataclass(frozen=True)
class ScaleOptions:
    """Options of `archcli scale`."""

    model: ModelLike
    params: Params = None
    _: KW_ONLY
    compute: Compute = None
    hours: HoursOption = None
    device: Device = None
    law: Law = DEFAULT_LAW
    batch_tokens: BatchTokens = DEFAULT_BATCH
    seq_len: Tokens = None
    keep: Keep = ()


class ScaledModel(NamedTuple):
    """The report of a scaled model, and its YAML."""

    report: Report
    yaml: str


def judge_of(name: str) -> Judge:
    """A judge of scaled shapes, by the rules of `archcli check`.

    It reads the YAML of a shape back and checks it; None where values contradict each other.
    """

    def judge(model: Model, params: int) -> JudgedModel | None:
        size = (short(params, "count") or str(params)).replace(",", "")
        renamed = unpublished(model, f"{name}-{size}".lower(), f"scaled from {name}")
        loaded = load_text(to_yaml(renamed), renamed.name, strict=False)
        if loaded.conflicts:
            return None
        findings = lint(Case(loaded.model), Selection(), loaded.model.ignore)
        broken = {broken.rule.code: str(broken.rule.severity) for broken in findings}
        return JudgedModel(loaded.model, broken)

    return judge


def siblings_of(subject: Subject) -> tuple[str, ...]:
    """The presets of a preset's family, where models of several widths all have its n_kv_heads."""
    head = subject.model.sibling_of or subject.name
    if subject.source != f"preset {subject.name}":
        return ()
    texts = (record for record in presets_index() if not record["media"])
    family = [record for record in texts if head in (record["name"], record["sibling_of"])]
    groups = {value for path, _, value in sizes(subject.model) if path.endswith(".n_kv_heads")}
    kept = groups and {record["n_kv_heads"] for record in family} == groups
    shared = any(record["n_heads"] != record["n_kv_heads"] for record in family)
    widths = {record["d_model"] for record in family}
    return tuple(record["name"] for record in family) if kept and shared and len(widths) > 1 else ()


def scaled(subject: Subject, options: ScaleOptions) -> ScaledModel:
    """Scale a loaded model. Raises ArchError for empty options, or options that no shape meets."""
    subject, devices = subject.without_towers(), None
    if options.device is not None:
        from archcli.wings.serving.api.predict import PredictOptions, predict_question  # of a device alone
        from archcli.wings.shapes.scale.step import TrainingDevices

        options_of_training = PredictOptions(subject.model, options.device, "train")
        devices = TrainingDevices(predict_question(subject.model, options_of_training))
    settings = part(options, ScaleSettings)
    problem = ScaleProblem(subject.model, settings, judge_of(subject.name), devices, siblings_of(subject))
    answer = problem.solve()
    return ScaledModel(subject.named(scale_report(problem, answer), options), to_yaml(answer.best.model))


@asks(ScaleOptions)
def scale(options: ScaleOptions) -> Report:
    """The nearest good shape of a family at another size: the report of `archcli scale`.

    One of `params`, `compute` (FLOPs) and `hours` on a `device` such as "8xh100-sxm" says the size. `totals`
    hold the shape (d_model, n_layers, values by path, params, off), its training (tokens, steps, flops,
    flops_6nd, days), laws and alternatives; `rows` each size of the base with its new value.

    Example: `scale("gpt3-175b", 13e9).totals["d_model"]` is 5120.
    """
    return scaled(given(options.model), options).report
