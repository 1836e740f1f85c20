"""`profile --against-prediction MODEL -- PROGRAM`: an architecture's prediction beside a program.

The program's steps are measured; the prediction is of MODEL with the batch, the sequence and the number
format that the program had, by this machine's peaks or on another device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError
from archcli.measure.report import Report
from archcli.wings.running.profile.program.beside import beside_table, compared_classes
from archcli.wings.running.recording.program import ProgramRecording

if TYPE_CHECKING:
    from archcli.wings.running.api.profiling.program_options import ProgramOptions

LOCAL = "local"
LENGTHS_UNKNOWN = "how many sequences of how many tokens the program's batches have is not known"
OPTIMIZERS = {"AdamW": "adamw", "Adam": "adamw", "SGD": "sgd", "Adafactor": "adafactor", "Muon": "muon"}
"""Optimizers of predict by torch's class; of any other the usual one."""


def check_prediction(model: str | None, device: str | None) -> None:
    """Raise ArchError for an unknown model or device, before the program starts."""
    if model is None:
        if device is not None:
            raise ArchError("--device is what a prediction is for", "add --against-prediction MODEL")
        return
    from archcli.api.asking.subject import subject

    subject(model, ())
    if device is not None and device != LOCAL:
        from archcli.wings.serving.api.known_device.known import known_device

        _ = known_device(device).timed  # raises what is wrong with it


def beside_prediction(report: Report, recording: ProgramRecording, program: ProgramOptions) -> Report:
    """The report with predicted seconds beside the measured ones, or a note why there are none."""
    try:
        from archcli.wings.serving.api.predict import predict

        options = _question(recording, program, report.totals["matmul_dtype"])
        predicted = predict(program.against_prediction or "", program.device or LOCAL, **options)
    except ArchError as error:
        problem = error.problems[0]
        hint = f" ({problem.hint})" if problem.hint else ""
        return _without(report, f"{problem.what}{hint}")
    # a watch needs torch alone, a prediction all that archcli requires
    except ModuleNotFoundError as missing:
        return _without(report, f"the program's Python has no {missing.name}, which predictions need")
    step_s = report.totals["step_s"]
    prediction = _compared(predicted, program, step_s, report.totals)
    return replace(
        report,
        totals={**report.totals, "prediction": prediction},
        tables=(*report.tables, beside_table(prediction)),
        notes=(*report.notes, *_notes(prediction, recording, program)),
    )


def _without(report: Report, why: str) -> Report:
    return replace(report, notes=(*report.notes, f"No prediction: {why}."))


def _question(recording: ProgramRecording, options: ProgramOptions, dtype: str | None) -> dict[str, Any]:
    """The options of predict for the program's step."""
    batch, length = options.batch_size, options.seq_len
    if batch is None or length is None:
        if recording.tokens is None:
            raise ArchError(LENGTHS_UNKNOWN, "state them: --batch-size and --seq-len")
        batch, length = batch or recording.tokens[0], length or recording.tokens[1]
    trains = options.step_on == "optimizer"
    optimizer = OPTIMIZERS.get(next(iter(recording.optimizers), ""))
    return {
        "phase": "train" if trains else "forward",
        "batch_size": batch,
        "seq_len": length,
        "dtype": dtype or "fp32",
        "compiled": bool(recording.graphs),
        **({"optimizer": optimizer} if trains and optimizer else {}),
        **({"backend": "cpu"} if options.device in {None, LOCAL} and recording.device == "cpu" else {}),
    }


def _compared(
    predicted: Report, options: ProgramOptions, step_s: float, totals: Mapping[str, Any]
) -> dict[str, Any]:
    """The record of a prediction beside the program: both times of a step, and of each class."""
    times = predicted.totals["time_s"]
    seconds = times["expected"] if times["expected"] is not None else times["floor"]
    return {
        "model": options.against_prediction,
        "device": predicted.totals["device"]["name"],
        "is_limit": times["expected"] is None,
        "measured_s": step_s,
        "predicted_s": seconds,
        "time_s": dict(times),
        "measured_over_predicted": step_s / seconds if seconds else None,
        "inputs": {name: predicted.inputs.get(name) for name in ("phase", "batch_size", "seq_len", "dtype")},
        "by_class": compared_classes(totals["by_class"], predicted.totals["by_class"], step_s),
    }


def _notes(
    prediction: Mapping[str, Any], recording: ProgramRecording, options: ProgramOptions
) -> Iterator[str]:
    if prediction["is_limit"]:
        yield "Predicted by the peaks of the device alone: a limit, which no program reaches."
    threads, processors = recording.machine.get("threads"), recording.disturbance.processors
    if options.device in {None, LOCAL} and recording.device == "cpu" and threads and threads < processors:
        yield f"The program ran on {threads} of {processors} processors; the prediction is for all of them."
