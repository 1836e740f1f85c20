"""Watch a user's program in its process, and report at its end.

An error of archcli is printed in a line after the program's output; the exit code stays the program's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from archcli.errors import ArchError
from archcli.render.write import tell
from archcli.wings.running.api.profiling.program_options import ProgramOptions
from archcli.wings.running.recording.program import ProgramRecording, Watching
from archcli.wings.serving.recorded.machine import Ceilings

if TYPE_CHECKING:
    from archcli.measure.report import Report
    from archcli.wings.running.runtime.program.watch import Watch


class _State:
    """The watch over this process, once torch is imported, and the options of the command."""

    watch: Watch | None = None
    options: Mapping[str, Any] = {}
    failure: str = ""


def begin(options: Mapping[str, Any]) -> None:
    """Begin to watch the program: torch has just been imported."""
    _State.options = options
    try:
        from archcli.wings.running.runtime.program.watch import Watch

        options_read = ProgramOptions(**options["asked"])
        watching = Watching(options_read.warm_up, options_read.steps, options_read.step_on, options_read.stop)
        _State.watch = Watch(watching, traces=_reports())
        _State.watch.begin()
    except Exception as problem:  # noqa: BLE001 - the program goes on, whatever is wrong with the watch
        _State.failure = f"{type(problem).__name__}: {problem}"


def compiles() -> None:
    """Record what the program compiles: torch's compiler has just been imported."""
    if _State.watch is None or not _reports():
        return
    try:
        _State.watch.compiled.install()
    except Exception as problem:  # noqa: BLE001 - the same
        _State.watch.give_up(f"{type(problem).__name__}: {problem}")


def finish() -> None:
    """Report at the end of the program, on standard error and into the file of -o."""
    if not _reports():
        return
    # flush the program's output, to print after it; AttributeError: stdout is None if the shell closed it
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    # the program may have replaced sys.stderr
    with redirect_stderr(sys.__stderr__):
        try:
            _report()
        except KeyboardInterrupt:
            tell("archcli: interrupted before the report")
        except ArchError as error:
            tell(f"archcli: {error}")
        except Exception as problem:  # noqa: BLE001 - the exit code is the program's
            tell(f"archcli: no report: {type(problem).__name__}: {problem}")


def _reports() -> bool:
    """Whether this process is the rank that traces and reports: the first, or the only one."""
    return os.environ.get("RANK", "0") in {"", "0"}


def _report() -> None:
    if _State.watch is None:
        why = _State.failure or "the program has not imported torch"
        tell(f"archcli: nothing was watched: {why}")
        return
    recording = _State.watch.recording()
    options = ProgramOptions(**_State.options["asked"])
    if not recording.traced_s:
        tell(f"archcli: {_nothing(recording, options)}")
        return
    report = _report_of(recording, options)
    _show(report, options)


def _nothing(recording: ProgramRecording, options: ProgramOptions) -> str:
    """Why no step was traced, and what to do."""
    if recording.failure:
        return f"no step was traced: {recording.failure}"
    if not recording.steps and options.step_on == "optimizer":
        return (
            "no step was found: no optimizer of torch's stepped in this process; --step-on forward takes "
            "each pass of the outermost module as a step; processes that the program starts are not watched"
        )
    if not recording.steps:
        return "no step was found: no module with parameters ran in this process"
    needed = options.warm_up + 3
    fewer = ", or --warm-up 1" if options.warm_up > 1 else ""
    return (
        f"no step was traced: the program ended after {recording.steps} of them, and the first "
        f"{needed} are left out, counted and timed without the tracer; let it run longer{fewer}"
    )


def _report_of(recording: ProgramRecording, options: ProgramOptions) -> Report:
    from archcli.wings.running.profile.program.report import program_report

    ended_by = vars(sys).get("last_type")  # Python sets it where a program ends by an error
    peaks = {} if options.no_ceilings or ended_by is not None else _peaks(recording)
    report = program_report(
        recording,
        options.program,
        inputs_of(options),
        peaks,
        depth=options.depth,
        top=options.top,
        ended_by=ended_by.__name__ if ended_by is not None else "",
    )
    if options.against_prediction is None:
        return report
    from archcli.wings.running.api.profiling.program_prediction import beside_prediction

    return beside_prediction(report, recording, options)


def inputs_of(options: ProgramOptions) -> dict[str, Any]:
    """The options by JSON's keys."""
    return {
        "step_on": options.step_on,
        "warm_up": options.warm_up,
        "steps": options.steps,
        "stop": options.stop,
        "against_prediction": options.against_prediction,
        "device": options.device,
        "batch_size": options.batch_size,
        "seq_len": options.seq_len,
    }


def _peaks(recording: ProgramRecording) -> dict[str, Ceilings]:
    """Ceilings of this machine in the dtype of most products, and in bf16 if most are in fp32."""
    from archcli.wings.running.profile.program.report import is_mostly_fp32, main_dtype

    dtypes = [main_dtype(recording), "bf16" if is_mostly_fp32(recording) else None]
    measured = {dtype: _ceilings(recording, dtype) for dtype in dtypes if dtype is not None}
    return {dtype: ceilings for dtype, ceilings in measured.items() if ceilings is not None}


def _ceilings(recording: ProgramRecording, dtype: str) -> Ceilings | None:
    """Ceilings of this machine in a dtype; None for one that cannot be measured."""
    from archcli.render.screen import progress
    from archcli.wings.running.api.profiling.settings import RunDtype, RunSettings, machine_ceilings

    if dtype not in get_args(RunDtype):
        return None
    settings = RunSettings(cast("RunDtype", dtype), recording.device, "sdpa", None, None, True, False, False)
    try:
        with progress("measuring what this machine can do") as tick:
            return machine_ceilings(recording.as_recording(), settings, tick)
    # the program may have left no memory on the device: a report without MFU
    except RuntimeError:
        return None


def _show(report: Report, options: ProgramOptions) -> None:
    """Print the report on standard error, and write it to the file of -o."""
    from archcli.render import on_stderr, rendered
    from archcli.render.write import write
    from archcli.wings.running.profile.program.summary import summary

    file, form = _State.options["output"], _State.options["form"]
    # printed first: the file's folder may be gone by now
    tell((summary(report) if options.md else on_stderr(report, "-o FILE.txt holds all")).rstrip("\n"))
    if file is not None:
        text = summary(report) if options.md or form == "md" else rendered(report, form or "plain")
        write(text, Path(file))
