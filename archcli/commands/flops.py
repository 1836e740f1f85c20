"""`archcli flops`: the FLOPs of one pass through an architecture."""

from __future__ import annotations

from archcli.api.asking.modules import ModuleOptions, of_any
from archcli.api.asking.subject import subject
from archcli.api.flops import FlopsOptions, flops_report
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.measure.report import Report
from archcli.render import show


@asking(FlopsOptions, ModuleOptions)
def run(
    options: FlopsOptions,
    running: ModuleOptions,
    *,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count the FLOPs of a pass by component and by class of operation.

    A decoding pass is one new token after --past cached ones; without --past, after --seq-len of them. With
    --tp, --sp or --ep the figures are of one device of the plan.
    """

    def answer() -> Report:
        return flops_report(subject(options.model, overrides), options)

    report = of_any("flops", options, running, {"set": overrides}, answer)
    show(report, form, output, as_json=as_json)
