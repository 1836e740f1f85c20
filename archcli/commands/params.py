"""`archcli params`: how large an architecture is."""

from __future__ import annotations

from archcli.api.asking.modules import ModuleOptions, of_any
from archcli.api.asking.subject import subject
from archcli.api.params import ParamsOptions, headers_report, params_report
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.measure.report import Report
from archcli.render import show


@asking(ParamsOptions, ModuleOptions)
def run(
    options: ParamsOptions,
    running: ModuleOptions,
    *,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Count parameters: total, active, by group and by path, and bytes.

    With --against, compare a checkpoint's tensors with the architecture by name and shape: which are
    missing, misshapen or unexpected, and why any other is there. Only headers are read, no weights. Exits
    with 1 where a tensor is left unexplained. With --explain, say which formula gave a row.
    """

    def answer() -> Report:
        return headers_report(options, overrides or ()) or params_report(
            subject(options.model, overrides), options
        )

    report = of_any("params", options, running, {"set": overrides}, answer)
    show(report, form, output, as_json=as_json)
    return 0 if report.totals.get("ok", True) else 1
