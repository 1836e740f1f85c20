"""`archcli predict`: how long a pass or a training step takes on a GPU you do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.api.asking.subject import subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.render import show
from archcli.wings.serving.api.predict import PredictOptions, predict_question, predict_report
from archcli.wings.serving.predict.answers.question import Curve, PredictQuestion

PlotFile = Annotated[
    Path | None,
    Option(
        "Draw latency against throughput, and the roofline with the rows: an .svg, .html or .png.",
        metavar="FILE",
        reads="picture",
    ),
]


@asking(PredictOptions)
def run(
    options: PredictOptions,
    *,
    plot: PlotFile = None,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Predict how long it takes on a GPU you do not have.

    Three figures: the limit that the device's peaks set, the expected time by measured kernels, and a range
    that held 80% of the measurements not used for fitting.
    In training --batch-size is that of one replica, otherwise all sequences in flight. Without a plan several
    devices share the model as is usual: --tp within a node for inference, --pp with llama.cpp, --dp with
    --zero 3 for training.
    """
    loaded = subject(options.model, overrides)

    def answer() -> Report:
        question = predict_question(loaded.model, options)
        report = predict_report(loaded, question, options)
        if plot is not None and options.is_loaded:
            _draw_load(report, plot)
        elif plot is not None:
            _draw(report, question, options.curve or "batch", plot)
        return report

    show(loaded.judged("predict", answer), form, output, as_json=as_json)


def _draw_load(report: Report, output: Path) -> None:
    """Write the picture of a curve over rates. Raises ArchError without one."""
    from archcli.wings.serving.pictures.predict import save_load

    if "curve" not in report.totals:
        raise ArchError("the picture of a load is over rates", "add --curve rate")
    save_load(report, report.totals["curve"], output)


def _draw(report: Report, question: PredictQuestion, curve: Curve, output: Path) -> None:
    """Write the picture of a report."""
    from archcli.wings.serving.pictures.predict import save_prediction
    from archcli.wings.serving.predict.answers.curve import KEYS, curve_points

    rates = question.timing.clock.rates
    points = report.totals.get("curve") or curve_points(question, curve)
    ceilings = {"gemm_flops_per_s": rates.peak(question.multiplied), "dram_bytes_per_s": rates.bandwidth}
    save_prediction(report, points, KEYS[curve], ceilings, output)
