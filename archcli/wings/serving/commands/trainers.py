"""`archcli trainers`: programs that train, with what they hold."""

from __future__ import annotations

from archcli.commands.line.options import Form, Json, Output, asking
from archcli.render import show
from archcli.wings.serving.api.programs.trainers import TrainersOptions, trainers


@asking(TrainersOptions)
def run(
    options: TrainersOptions,
    *,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """List trainers, or show what one holds."""
    show(trainers(options.trainer), form, output, as_json=as_json)
