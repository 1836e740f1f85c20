"""`archcli sweep`: which shapes of an architecture meet conditions, and which of those are best."""

from __future__ import annotations

from archcli.api.asking.subject import INTERRUPTED, subject
from archcli.api.sweep_question import SweepOptions, swept
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.render import show
from archcli.render.screen import progress


@asking(SweepOptions)
def run(
    options: SweepOptions,
    *,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Find the shapes of an architecture that meet conditions.

    Every combination of --vary is counted exactly as one model is, a chunk of candidates at a time.
    Conditions and objectives may ask for any figure of params, flops, kvcache, survey, memory (peak_bytes)
    and predict (time). Ctrl-C stops and shows the best so far.
    """
    base = subject(options.model, overrides)
    with progress(f"sweeping {base.name}") as tick:
        report = swept(base, options, tick)
    show(report, form, output, as_json=as_json)
    return INTERRUPTED if report.totals["seen"] < report.totals["candidates"] else 0
