"""`archcli memory`: what training or inference of an architecture takes, and what fits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from archcli.api.asking.modules import ModuleOptions, of_any
from archcli.api.asking.question import Option
from archcli.api.asking.subject import Subject, subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.measure.report import Report
from archcli.render import show
from archcli.wings.serving.api.memory import MemoryOptions, memory_report
from archcli.wings.serving.memory.answers.question import MemoryQuestion

PlotFile = Annotated[
    Path | None,
    Option(
        "Draw the moments by their parts and the peak by batch size: an .svg, .html or .png.",
        metavar="FILE",
        reads="picture",
    ),
]


@asking(MemoryOptions, ModuleOptions)
def run(
    options: MemoryOptions,
    running: ModuleOptions,
    *,
    plot: PlotFile = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Count the memory of training or inference, and say what fits.

    The bytes at the peak are exact for the model that archcli builds: weights, gradients, optimizer states,
    activations kept for backward, the loss and temporaries.
    In training --batch-size is that of one replica, otherwise all sequences in flight.
    """

    def answer() -> Report:
        loaded = subject(options.model, overrides)
        return loaded.judged("memory", lambda: _answer(loaded, options, plot))

    report = of_any("memory", options, running, {"set": overrides, "plot": plot}, answer)
    show(report, form, output, as_json=as_json)


def _answer(loaded: Subject, options: MemoryOptions, plot: Path | None) -> Report:
    """The report, which is drawn where a picture is asked for."""
    question = options.question(loaded.model)
    report = _report(loaded, question, options)
    if plot is not None:
        _draw(report, question, plot)
    return report


def _report(loaded: Subject, question: MemoryQuestion, options: MemoryOptions) -> Report:
    """The report, with progress on a terminal while it searches."""
    if options.fit is None:
        return memory_report(loaded, question, options)
    from archcli.render.screen import progress

    with progress(f"fitting {loaded.name}") as tick:
        return memory_report(loaded, question, options, lambda attempt: tick(attempt, 0, 0))


def _draw(report: Report, question: MemoryQuestion, output: Path) -> None:
    """Write the picture of a report."""
    from archcli.wings.serving.api.known_device.known import known_gpus
    from archcli.wings.serving.memory.answers.tables import batch_curve
    from archcli.wings.serving.pictures.memory import save_memory

    save_memory(report, batch_curve(question, known_gpus()), output)
