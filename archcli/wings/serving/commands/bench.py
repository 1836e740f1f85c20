"""`archcli bench`: the speed of a running server."""

from __future__ import annotations

from archcli.commands.line.options import Form, Json, Output, asking
from archcli.render import show
from archcli.wings.serving.api.bench import BenchOptions, bench_report


@asking(BenchOptions)
def run(options: BenchOptions, *, form: Form = None, as_json: Json = False, output: Output = None) -> None:
    """Measure a running server: first token and tokens after it."""
    show(bench_report(options), form, output, as_json=as_json)
