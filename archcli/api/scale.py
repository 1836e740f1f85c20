"""scale: `archcli scale` in Python, and what its command shares with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from archcli.api.arguments import checked, record_of
from archcli.api.subject import Subject, given
from archcli.load.presets import presets_index
from archcli.load.source import load_text
from archcli.load.yaml.writer import to_yaml
from archcli.measure.report import Report
from archcli.measure.scale.laws import DEFAULT_LAW, LawName
from archcli.measure.scale.question import DEFAULT_BATCH, FIELDS, ScaleSettings
from archcli.measure.scale.report import scale_report
from archcli.measure.scale.search import Judge, JudgedModel
from archcli.measure.scale.shape import unpublished
from archcli.measure.scale.solve import ScaleProblem
from archcli.measure.symbolic.symbols import sizes
from archcli.modules import Model
from archcli.modules.spec.arguments import ModelLike
from archcli.modules.spec.values import ValueType, value_type
from archcli.render.values import short
from archcli.rules.base import Case
from archcli.rules.lint import Selection, lint
from archcli.units import parse_count


class ScaledModel(NamedTuple):
    """The report of a scaled model, and its YAML."""

    report: Report
    yaml: str


def judge_of(name: str) -> Judge:
    """The judge of shapes scaled from a model of this name.

    It reads the YAML of a shape back and checks it; None where values contradict each other.
    """

    def judge(model: Model, params: int) -> JudgedModel | None:
        size = (short(params, "count") or str(params)).replace(",", "")
        stated = unpublished(model, f"{name}-{size}".lower(), f"scaled from {name}")
        loaded = load_text(to_yaml(stated), stated.name, strict=False)
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
    family = [record for record in presets_index() if head in (record["name"], record["sibling_of"])]
    groups = {value for path, _, value in sizes(subject.model) if path.endswith(".n_kv_heads")}
    kept = groups and {record["n_kv_heads"] for record in family} == groups
    shared = any(record["n_heads"] != record["n_kv_heads"] for record in family)
    widths = {record["d_model"] for record in family}
    return tuple(record["name"] for record in family) if kept and shared and len(widths) > 1 else ()


def scaled(subject: Subject, settings: ScaleSettings, device: str | None) -> ScaledModel:
    """Scale a loaded model. Raises ArchError for settings that say nothing, or that no shape meets."""
    timed = None
    if device is not None:
        from archcli.api.predict import AskedTime, asked_question  # of a device alone

        timed = asked_question(subject.model, AskedTime(device, "train"))
    problem = ScaleProblem(subject.model, settings, judge_of(subject.name), timed, siblings_of(subject))
    answer = problem.solve()
    return ScaledModel(subject.named(scale_report(problem, answer)), to_yaml(answer.best.model))


def _amount(value: Any) -> int | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return parse_count(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _goal(name: str) -> ValueType:
    """An amount as a whole number, 3e9 or "3B"."""
    accepted = FIELDS[name]
    return ValueType(accepted.words, lambda value: accepted.convert(_amount(value)), {})


OWN = {
    **FIELDS,
    "params": _goal("params"),
    "compute": _goal("compute"),
    "device": value_type(str | None),
}
"""Values that names accept here beside those of all functions."""


@checked(OWN)
def scale(  # noqa: PLR0913
    model: ModelLike,
    params: float | str | None = None,
    *,
    compute: float | str | None = None,
    hours: float | None = None,
    device: str | None = None,
    law: LawName = DEFAULT_LAW,
    batch_tokens: int = DEFAULT_BATCH,
    seq_len: int | None = None,
    keep: Sequence[str] = (),
) -> Report:
    """The nearest good shape of a family at another size: the report of `archcli scale`.

    One of `params`, `compute` (FLOPs) and `hours` on a `device` such as "8xh100-sxm" says the size. `totals`
    hold the shape (d_model, n_layers, values by path, params, off), its training (tokens, steps, flops,
    flops_6nd, days), laws and alternatives; `rows` each size of the base with its new value.

    Example: `scale("gpt3-175b", 13e9).totals["d_model"]` is 5120.
    """
    settings = record_of(ScaleSettings, locals())
    return scaled(given(model), settings, device).report
