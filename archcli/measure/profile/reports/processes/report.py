"""The report of a profile that several processes ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archcli.measure.profile.reports.headings import usual_inputs
from archcli.measure.profile.reports.joining import joined_notes, joined_rows
from archcli.measure.profile.reports.processes.medians import joined_totals, varied
from archcli.measure.profile.reports.processes.tables import tables_of
from archcli.measure.profile.schema.profile import Profile
from archcli.measure.report import Report

CONVENTION = (
    "Figures are medians over fresh processes, each for itself, so that shares need not add up to 100%; "
    "least and most are of one process."
)
FEWEST = 3
"""The fewest processes of which a range says something."""


def repeated(documents: Sequence[Profile], asked: int, top: int = 0) -> Report:
    """The documents of the processes that finished, of `asked` in all, as one report.

    `top` 0 shows all operators.
    """
    first = documents[0]
    totals = joined_totals(documents, asked)
    rows = joined_rows([document["rows"] for document in documents], varied)
    warnings = [
        *_few_processes(len(documents), asked),
        *joined_notes([document["totals"].get("warnings", []) for document in documents], "processes"),
    ]
    return Report(
        command=first["command"],
        model={"name": first["model"]["name"], "source": first["model"]["source"]},
        inputs={**first["inputs"], "repeat_process": asked},
        usual=usual_inputs(first["inputs"]["phase"]),
        convention=f"{first['convention']} {CONVENTION}",
        totals={**totals, "warnings": warnings},
        rows=rows,
        tables=tuple(tables_of(totals, rows, top)),
        notes=(
            *_few_processes(len(documents), asked),
            *joined_notes([document["notes"] for document in documents], "processes"),
        ),
    )


def _few_processes(done: int, asked: int) -> Iterator[str]:
    if done < asked:
        yield f"PARTIAL: interrupted after {done} of {asked} processes."
    if done < FEWEST:
        yield f"{done} process{'es are' if done > 1 else ' is'} few: a range of so few says little."
