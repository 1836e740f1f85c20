"""`archcli summary`: parameters, shapes and FLOPs of any module of torch, by its modules."""

from __future__ import annotations

from archcli.api.asking.modules import ModuleOptions
from archcli.commands.line.options import Form, Json, Output, asking
from archcli.errors import ArchError, NoModelError, UndescribedError, quote
from archcli.load.hub.module_names import module_name
from archcli.load.source import load
from archcli.measure.report import Report
from archcli.render import show
from archcli.wings.running.api.by_class import compared, of_class
from archcli.wings.running.api.own import SummaryOptions, of_named


@asking(SummaryOptions, ModuleOptions)
def run(
    options: SummaryOptions,
    running: ModuleOptions,
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
    name = module_name(options.module)
    report = _of_class(options, running) if name is None else of_named("summary", name, options, running)
    show(report, form, output, as_json=as_json)


def _of_class(options: SummaryOptions, running: ModuleOptions) -> Report:
    """The report on the class of a config.json; ArchError for what archcli describes."""
    if running.by_class:
        return compared("summary", options.module, options, running, {})
    try:
        load(options.module)
    except UndescribedError as error:
        return of_class("summary", error, options, running, {})
    except NoModelError:
        pass
    hint = "pkg.module:function names one; of an architecture ask params, flops or show"
    raise ArchError(f"{quote(options.module)} names no module of yours", hint)
