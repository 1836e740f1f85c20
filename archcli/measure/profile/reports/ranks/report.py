"""The report of a profile that the ranks of a plan made together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.profile.reports.headings import usual_inputs
from archcli.measure.profile.reports.joining import joined_notes, joined_rows
from archcli.measure.profile.reports.one.report import CONVENTION
from archcli.measure.profile.reports.ranks.joined import (
    RankDocument,
    RunOfRanks,
    joined_totals,
    of_all_ranks,
)
from archcli.measure.profile.reports.ranks.tables import tables_of
from archcli.measure.report import Report

OF_RANKS = (
    "Figures are those of one rank: medians over the ranks, each for itself, so that shares need not add up "
    "to 100%. Bytes of communication are those that a rank sends over a ring, its time is what no computing "
    "of the rank hides, and its GB/s are of all the time under way."
)


def of_ranks(
    documents: Sequence[RankDocument], run: RunOfRanks, inputs: Mapping[str, Any], top: int = 0
) -> Report:
    """The report of all ranks, in their order; `top` 0 shows all operators."""
    totals, rows = (
        joined_totals(documents, run),
        joined_rows([document.rows for document in documents], of_all_ranks),
    )
    warnings = list(joined_notes([document.totals["warnings"] for document in documents], "ranks"))
    return Report(
        command="profile",
        model={"name": "", "source": ""},
        inputs={**inputs, "tp": run.tp, "dp": run.dp},
        usual={**usual_inputs(inputs["phase"]), "tp": 1, "dp": 1},
        convention=f"{CONVENTION} {OF_RANKS}",
        totals={**totals, "warnings": warnings},
        rows=rows,
        tables=tuple(tables_of(totals, rows, top)),
        notes=(
            *joined_notes([document.notes for document in documents], "ranks"),
            *_on_ranks(inputs["phase"], run),
        ),
    )


def _on_ranks(phase: str, run: RunOfRanks) -> Iterator[str]:
    """How the ranks ran."""
    if run.tp > 1:
        yield f"Each matrix is shared by {run.tp} ranks; weights are slices of one whole model's."
    if run.dp > 1 and phase == "train":
        yield f"FSDP2 shards weights over {run.dp} replicas, layer by layer; the batch size is that of each."
    elif run.dp > 1:
        yield f"{run.dp} replicas have an equal part of the batch each, and exchange nothing."
    if run.backend == "gloo" and (run.tp > 1 or phase == "train"):
        yield "gloo moves tensors through the processors of this machine, which compute meanwhile."
