"""Files that `archcli profile` writes beside its report: a picture and a trace."""

from __future__ import annotations

from pathlib import Path

from archcli.errors import ArchError, Problem
from archcli.measure.report import Report
from archcli.recording.recording import Recording
from archcli.render.data import document
from archcli.render.picture import check_suffix, save
from archcli.render.write import write, write_data


def check_files(plot: Path | None, trace: Path | None, *, compares: bool = False) -> None:
    """Raise ArchError, before anything is measured, for files that could not be written afterwards."""
    if compares and (plot or trace):
        raise ArchError(
            "--vs compares: there is no picture and no trace of it", "leave --plot and --trace out, or --vs"
        )
    if plot is not None:
        check_suffix(plot)
    if trace is not None and not trace.name.endswith((".json", ".json.gz")):
        what = f"{trace.name} ends in neither .json nor .json.gz"
        raise ArchError(Problem(what, "Perfetto reads both", path=str(trace)))
    for file in (plot, trace):
        if file is not None and not file.absolute().parent.is_dir():
            raise ArchError(Problem(f"there is no folder {file.parent}", "make it first", path=str(file)))


def write_files(report: Report, recording: Recording, plot: Path | None, trace: Path | None) -> None:
    """Write the files that were asked for."""
    if plot is not None:
        save(document(report), plot)
    if trace is not None:
        _write_trace(recording, trace)


def _write_trace(recording: Recording, file: Path) -> None:
    import gzip
    import json

    text = json.dumps(recording.trace, separators=(",", ":"))
    if file.name.endswith(".gz"):
        write_data(gzip.compress(text.encode(), mtime=0), file)
    else:
        write(text, file)
