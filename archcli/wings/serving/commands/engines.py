"""`archcli engines`: servers of models, with what they fuse, hold and take."""

from __future__ import annotations

from archcli.commands.line.options import Form, Json, Output, asking
from archcli.render import show
from archcli.wings.serving.api.programs.engines import EnginesOptions, engines


@asking(EnginesOptions)
def run(
    options: EnginesOptions,
    *,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """List engines, or show what one fuses, holds and takes."""
    show(engines(options.engine), form, output, as_json=as_json)
