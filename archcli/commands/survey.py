"""`archcli survey`: architectures side by side, and how their figures spread."""

from __future__ import annotations

from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subjects
from archcli.api.survey import SurveyOptions, described_presets, surveyed
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.errors import ArchError
from archcli.render import show
from archcli.render.screen import progress

Models = Annotated[
    list[str] | None,
    Option(
        "YAML, config.json or GGUF files to list before the presets.",
        metavar="MODEL",
        completes="models",
        argument=True,
    ),
]


@asking(SurveyOptions)
def run(
    options: SurveyOptions,
    *,
    models: Models = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Tabulate the design choices of many architectures, with medians.

    Norms, activations, wiring, positions, ratios, attention, experts and sizes: of the models given, then
    of the presets, one of each series and generation, with the median and quartiles of every figure.
    """
    # a model that is named twice is one row
    names = list(dict.fromkeys(models or ()))
    if options.no_presets and not names:
        raise ArchError("no model to survey", "name some, or leave --no-presets out")
    with progress("survey"):
        loaded = subjects(names)
        listed = [*names, *(model.name for model in loaded if model.name_notes)]
        report = surveyed(loaded, options, described_presets(options, listed))
    show(report, form, output, as_json=as_json)
