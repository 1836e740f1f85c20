"""Compare models with the presets, column by column, and list findings of `archcli check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.api.asking.subject import Subject
from archcli.api.check import CheckOptions, FileCheck
from archcli.load.presets import evidence_index
from archcli.rules.base import Parallelism
from archcli.rules.evidence import COLUMNS, entry
from archcli.wings.drawing.api.reporting.subjects import ReportedModel

TITLES = {
    "aspect_ratio": "d_model / n_layers",
    "d_ff_ratio": "d_ff / d_model",
    "head_ratio": "heads × head_dim / d_model",
    "active_share": "active share of parameters",
    "attention_share": "layers of attention, of those that mix",
    "vocab_size": "vocab_size",
}


def strips(subjects: Sequence[Subject]) -> list[dict[str, Any]]:
    """The values of presets and models in each column that rules compare."""
    index = evidence_index(COLUMNS)
    judged = [(subject.name, entry(subject.name, subject.model)["judged"]) for subject in subjects]
    strips_shown = []
    for column, title in TITLES.items():
        of_models = [(name, values[column]) for name, values in judged if values[column]]
        names = {name for name, _ in of_models}
        others = [
            # five digits are enough to place a dot, and keep the page small
            (it["name"], float(f"{it[column]:.5g}"))
            for it in index
            if it[column] and it["name"] not in names
        ]
        if of_models and others:
            strips_shown.append({"name": title, "own": of_models, "others": others})
    return strips_shown


def findings(model: ReportedModel) -> list[dict[str, str]]:
    """The findings of `archcli check` on a model."""
    parallel = Parallelism(1, 1, 1)
    check = FileCheck((), CheckOptions().selection(), parallel, strict=True)
    return [
        {
            "code": it.rule.code,
            "severity": str(it.rule.severity.value),
            "title": it.rule.title,
            "message": it.finding.message,
        }
        for it in check.of_model(model.unchecked()).diagnostics
    ]
