"""`archcli survey`: architectures side by side, and how their figures spread."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.api.subject import subjects
from archcli.commands.line import completion
from archcli.commands.line.options import Form, Json, Output, Sort, Where
from archcli.errors import ArchError
from archcli.load.presets import preset_records, surveyed_presets
from archcli.measure.survey.columns import COLUMNS, describe
from archcli.measure.survey.survey import survey_records
from archcli.modules.spec.arguments import By
from archcli.render import show

Models = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.models,
        metavar="MODEL",
        help="YAML, config.json or GGUF files to list before the presets.",
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        metavar="COL,COL",
        autocompletion=completion.several_columns,
        help=f"Show only these, in one table: {', '.join(COLUMNS)}.",
    ),
]
ByOption = Annotated[
    By | None,
    typer.Option("--by", help="Show the spread of each figure by year or by series instead of the models."),
]
AllPresets = Annotated[
    bool, typer.Option("--all", help="Take every preset, and not one of each series and generation.")
]
NoPresets = Annotated[bool, typer.Option("--no-presets", help="Leave the presets out.")]


def run(  # noqa: PLR0913
    models: Models = None,
    *,
    columns: Columns = None,
    where: Where = None,
    sort: Sort = None,
    by: ByOption = None,
    all_presets: AllPresets = False,
    no_presets: NoPresets = False,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Tabulate the design choices of many architectures, with medians.

    Norms, activations, wiring, positions, ratios, attention, experts and sizes: of the models given, then
    of the presets, one of each series and generation, with the median and quartiles of every figure.
    """
    given = list(dict.fromkeys(models or ()))
    if no_presets and not given:
        raise ArchError("no model to survey", "name some, or leave --no-presets out")
    records = [describe(model.name, model.model) for model in subjects(given)]
    names = [] if no_presets else surveyed_presets(every=all_presets)
    records += [record for record in preset_records(COLUMNS) if record["name"] in {*names} - {*given}]
    keys = [key.strip() for text in columns or () for key in text.split(",")]
    report = survey_records(records, keys, where or (), sort, by)
    show(report, form, output, as_json=as_json)
