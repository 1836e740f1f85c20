"""Files that `archcli profile` writes beside its report: a picture and a trace."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.measure.report import Report
from archcli.recording.recording import Recording
from archcli.render import chosen_format
from archcli.render.write import STDOUT, check_writable, descriptor, write, write_data


def check_files(options: Mapping[str, Any]) -> None:
    """Raise ArchError, before anything is measured, for formats and files that could not be written."""
    plot, trace, output = (options[name] for name in ("plot", "trace", "output"))
    chosen_format(options["form"], output, as_json=options["as_json"])
    if options["vs"] and (plot or trace):
        raise ArchError(
            "--vs compares: there is no picture and no trace of it", "leave --plot and --trace out, or --vs"
        )
    if plot is not None:
        from archcli.render.picture import check_picture

        check_picture(plot)
    if trace is not None and descriptor(trace) is None and not trace.name.endswith((".json", ".json.gz")):
        what = f"{trace.name} ends in neither .json nor .json.gz"
        raise ArchError(Problem(what, "Perfetto reads both", path=str(trace)))
    for file in (trace, output):
        check_writable(file)
    _check_apart([place for place in (plot, trace) if place is not None] + [output])


def _check_apart(places: Sequence[Path | None]) -> None:
    """Raise ArchError where two of the report, the picture and the trace would go to one place."""
    targets = [descriptor(place) or os.path.realpath(place or "") for place in places]
    for i, target in enumerate(targets):
        if target in targets[:i]:
            name = "standard output" if target == STDOUT else str(places[i])
            raise ArchError(
                f"{name} would get two of the report, the picture and the trace", "name two files"
            )


def write_files(report: Report, recording: Recording | None, plot: Path | None, trace: Path | None) -> None:
    """Write the files that were asked for; a trace is of one recording."""
    if plot is not None:
        from archcli.render.data import document
        from archcli.render.picture import save

        save(document(report), plot)
    if trace is not None and recording is not None:
        _write_trace(recording, trace)


def _write_trace(recording: Recording, file: Path) -> None:
    import gzip
    import json

    text = json.dumps(recording.trace, separators=(",", ":"))
    if file.name.endswith(".gz"):
        # mtime=0: gzip would write the time of day, and one trace give two files
        write_data(gzip.compress(text.encode(), mtime=0), file)
    else:
        write(text, file)
