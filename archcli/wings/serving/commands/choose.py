"""`archcli choose`: which devices to choose for a model, and what they cost."""

from __future__ import annotations

from archcli.api.asking.subject import INTERRUPTED, subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.render import show
from archcli.render.screen import progress
from archcli.wings.serving.api.choosing.choose import ChooseOptions, choose_report


@asking(ChooseOptions)
def run(
    options: ChooseOptions,
    *,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Say which devices to choose for a model, and what they cost.

    All devices and counts are asked as `archcli fit` asks one. The first line is the cheapest that meets all
    conditions; below it stand those that nothing beats in price, speed and watts. Ctrl-C stops and answers
    for those that were asked.
    """
    loaded = subject(options.model, overrides or ())
    with progress("choosing") as tick:
        report = loaded.judged("choose", lambda: choose_report(options, loaded, tick))
    show(report, form, output, as_json=as_json)
    return INTERRUPTED if report.totals["asked"] < report.totals["places"] else 0
