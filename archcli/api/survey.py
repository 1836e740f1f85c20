"""survey: `archcli survey` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from archcli.api.asking.options import Sort, Where
from archcli.api.asking.question import Option
from archcli.api.asking.subject import Subject, given
from archcli.errors import ArchError
from archcli.load.presets import preset_records, surveyed_presets
from archcli.measure.report import Report
from archcli.measure.survey.attributes import architecture_of
from archcli.measure.survey.columns import COLUMNS, CONDITIONS, SurveyColumn, describe
from archcli.measure.survey.presets import LISTED
from archcli.measure.survey.survey import survey_records
from archcli.modules import Model
from archcli.modules.models.model import ModelLike
from archcli.modules.spec.arguments import By
from archcli.modules.spec.calls import checked
from archcli.plugins import installed, loaded
from archcli.query.vocabulary import ColumnNames

Columns = Annotated[
    Sequence[str],
    Option(
        f"Show only these, in one table: {', '.join(COLUMNS)}.",
        metavar="COL,COL",
        completes="several_columns",
    ),
]
Grouping = Annotated[
    By | None, Option("Show the spread of each figure by year or by series instead of the models.")
]
AllPresets = Annotated[
    bool, Option("Take every preset, and not one of each series and generation.", name="all")
]
NoPresets = Annotated[bool, Option("Leave the presets out.")]


MEASURES = "archcli.measures"
"""The entry points by which an installed distribution offers columns of its own."""


@dataclass(frozen=True)
class SurveyOptions:
    """Options of `archcli survey`."""

    columns: Columns = ()
    where: Where = ()
    sort: Sort = None
    by: Grouping = None
    all_presets: AllPresets = False
    no_presets: NoPresets = False


def surveyed(
    subjects: Sequence[Subject], options: SurveyOptions, presets: Sequence[dict[str, Any]] = ()
) -> Report:
    """The report on loaded models and described presets, with notes on the models' names."""
    keys = [key.strip() for text in options.columns for key in text.split(",")]
    more = _offered(keys)
    models = [subject.model for subject in subjects]
    models += [given(preset["name"]).model for preset in presets if more]
    records = [*described(subjects), *presets]
    if more:
        records = [
            {**record, **_measured(model, more)} for record, model in zip(records, models, strict=True)
        ]
    report = survey_records(records, keys, options.where, options.sort, options.by, more)
    notes = (note for subject in subjects for note in subject.name_notes)
    return replace(report, notes=(*report.notes, *notes))


def _offered(keys: Sequence[str]) -> list[SurveyColumn]:
    """The columns with these keys that installed distributions offer."""
    names = ColumnNames(CONDITIONS, LISTED)
    unknown = [key for key in keys if names.find(key) is None]
    columns = [loaded(entry) for entry in installed(MEASURES) if entry.name in unknown] if unknown else []
    for column in columns:
        if not isinstance(column, SurveyColumn) or column.key not in unknown:
            raise ArchError(f"{MEASURES} offers what is no SurveyColumn of its name: {column!r}")
    return columns


def _measured(model: Model, columns: Sequence[SurveyColumn]) -> dict[str, Any]:
    """The value of columns for a model."""
    architecture = architecture_of(model)
    try:
        return {column.key: column.figure(architecture) for column in columns}
    except Exception as error:  # an outsider's code may raise anything
        names = " or ".join(column.key for column in columns)
        raise ArchError(f"{names} of {MEASURES} fails: {type(error).__name__}: {error}") from error


def described(subjects: Sequence[Subject]) -> list[dict[str, Any]]:
    """A record of every loaded model."""
    return [describe(model.name, model.model) for model in subjects]


def described_presets(options: SurveyOptions, excluded: Sequence[str]) -> list[dict[str, Any]]:
    """The records of the presets that are surveyed, without those `excluded`. Reads an index alone."""
    names = set() if options.no_presets else {*surveyed_presets(every=options.all_presets)} - {*excluded}
    return [record for record in preset_records(COLUMNS) if record["name"] in names]


@checked
def survey(
    *models: ModelLike,
    columns: Columns = (),
    where: Where = (),
    sort: Sort = None,
    by: Grouping = None,
    all_presets: AllPresets = False,
) -> Report:
    """Many architectures by the same columns, and how figures spread: the report of `archcli survey`.

    Where no model is given, of one preset of each series and generation, or of `all_presets`. `columns` are
    shown alone; `where` are conditions such as "params>10B", all of which must hold; `sort` is a column,
    "params:desc" for the largest first; `by` "year" or "series" gives the spread in each. `rows` are records.

    Example: `survey("gpt2", columns=["params", "head_ratio"]).rows[0]["head_ratio"]` is 1.0.
    """
    options = SurveyOptions(columns=columns, where=where, sort=sort, by=by, all_presets=all_presets)
    return surveyed([*map(given, models)], options, () if models else described_presets(options, ()))
