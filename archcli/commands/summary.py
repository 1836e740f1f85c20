"""`archcli summary`: parameters, shapes and FLOPs of any module of torch, by its modules."""

from __future__ import annotations

from typing import Annotated

import typer

from archcli.api.asking.module_options import ModuleOptions
from archcli.api.asking.modules import asked_of_module
from archcli.api.own import SummaryOptions
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.errors import ArchError, quote
from archcli.render import show

Module = Annotated[
    str,
    typer.Argument(
        metavar="MODULE",
        help="pkg.module:function, which returns a torch.nn.Module or (module, inputs); py: looks here too.",
    ),
]


@asking(SummaryOptions, ModuleOptions)
def run(
    options: SummaryOptions,
    own: ModuleOptions,
    *,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Summarize your own module: parameters, shapes, FLOPs.

    Runs your code: imports the package, calls the function, and runs the module once on tensors without
    values, so that nothing is computed and no weight is read. Equal layers stand once, as layers.*. What
    multiplies tensors and has no formula is an error that names it, never a zero. Needs torch.
    """
    report = asked_of_module("summary", options, own)
    if report is None:
        hint = "pkg.module:function names one; of an architecture ask params, flops or show"
        raise ArchError(f"{quote(options.model)} names no module of yours", hint)
    show(report, form, output, as_json=as_json)
