"""`archcli fit`: whether a model fits, in which format, and how fast it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import INTERRUPTED, subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.render import show
from archcli.wings.serving.api.fit import fit_report
from archcli.wings.serving.api.fitting.question import FitOptions

OnDevice = Annotated[
    str | None,
    Option("The device, as --device has it.", metavar="DEVICE", completes="devices", argument=True),
]

PlotFile = Annotated[
    Path | None,
    Option(
        "Draw the longest context of each format that fits: an .svg, .html or .png.",
        metavar="FILE",
        reads="picture",
    ),
]


@asking(FitOptions)
def run(
    options: FitOptions,
    *,
    on: OnDevice = None,
    plot: PlotFile = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Say whether a model fits a device, in which format, and how fast.

    `archcli fit MODEL DEVICE` names the largest format that fits, the longest context with it, and tokens a
    second. `archcli fit --device DEVICE` lists the presets that fit, and `archcli fit` the model files that
    fit this machine, or presets that suit it; Ctrl-C shows those so far. Both may be named as people do:
    `archcli fit gpt-oss:20b "M3 Pro 36GB"`.
    Bytes are those of `archcli memory --phase serve`, speeds those of `archcli predict`. For training ask
    `archcli memory --phase train --fit`.
    """
    if on is not None:
        if options.device is not None:
            raise ArchError(f"two devices: {on} and --device {options.device}", "leave one of them out")
        options = replace(options, device=on)
    if plot is not None and options.model is None:
        raise ArchError(
            "--plot draws one model on a device, and none is named", "name one, or leave --plot out"
        )
    question = options if plot is None else replace(options, verbose=True)
    report = _report(question, overrides or ())
    if plot is not None:
        from archcli.wings.serving.pictures.fit import save_fit  # of a picture alone

        save_fit(report, plot)
        report = report if options.verbose else replace(report, tables=report.tables[:1])
    show(report, form, output, as_json=as_json)
    return INTERRUPTED if report.totals.get("left") else 0


def _report(options: FitOptions, overrides: Sequence[str]) -> Report:
    """The report, with progress on a terminal while many models are asked about."""
    if options.model is not None and options.device is not None:
        return fit_report(options, overrides, read=subject)
    from archcli.render.screen import progress  # of many models alone

    with progress("fitting") as tick:
        return fit_report(options, overrides, tick, subject)
