"""`archcli verify`: let outside witnesses count the built model, and hold what archcli counts against them."""

from __future__ import annotations

from math import lcm
from typing import TYPE_CHECKING, Any

import typer

from archcli.commands.base import Subject, subject
from archcli.commands.options import BatchSize, Form, Json, Model, Output, SeqLen, Set
from archcli.measure.passes import decode_pass, forward_pass, prefill_pass, train_pass, whole_tokens
from archcli.measure.report import Column, Report, Table
from archcli.render.progress import progress

if TYPE_CHECKING:
    from archcli.runtime.witness import Verdict

CONVENTION = (
    "FLOP = 2 x multiply-add, of matrix products; every score of S x S counted, as eager attention executes (--mask dense). "
    "The model is built on torch's meta device: real shapes, no numbers."
)


def run(
    model: Model,
    *,
    batch_size: BatchSize = 1,
    seq_len: SeqLen = 128,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Ask outside witnesses whether they count the same: torch's parameters, cache and FlopCounterMode, and fvcore.

    Builds the model with torch, without weights or memory for them, and compares parameters by name and shape, and
    FLOPs of forward, training, prefill and decode, in total and row by row. Exit code 1 where anything differs. Needs
    archcli[torch].
    """
    asked = subject(model, overrides)
    verdict = _ask(asked, batch_size, seq_len)
    asked.show(report_of(verdict, {"batch_size": batch_size, "seq_len": seq_len}), form, output, as_json=as_json)
    if not verdict.ok:
        raise typer.Exit(1)


def _ask(asked: Subject, batch_size: int, seq_len: int) -> Verdict:
    """Count, then let torch and fvcore count; torch is imported here, so that a bad model is told at once."""
    model = asked.decoder("verify")
    train_batch = lcm(batch_size * seq_len, whole_tokens(model)) // seq_len
    passes = (
        forward_pass(model, batch_size, seq_len),
        train_pass(model, train_batch, seq_len),
        prefill_pass(model, batch_size, seq_len),
        decode_pass(model, batch_size, seq_len),
    )
    from archcli.runtime import witness

    with progress(f"verifying {asked.name}") as tick:
        return witness.verify(model, witness.Asked(*passes, batch_size, seq_len), tick)


def report_of(verdict: Verdict, inputs: dict[str, Any]) -> Report:
    """The findings as a table; those that differ name the rows."""
    keys = ("witness", "what", "ours", "theirs", "ok", "where")
    rows = [{key: getattr(finding, key) for key in keys} for finding in verdict.findings]
    failed = sum(not finding.ok for finding in verdict.findings)
    titles = {"ok": "", "witness": "witness", "what": "what", "ours": "archcli", "theirs": "witness says"}
    titles |= {"where": "where"} if failed else {}
    columns = [Column(key, heading, "flag" if key == "ok" else "text") for key, heading in titles.items()]
    title = f"{failed} of {len(rows)} comparisons differ" if failed else f"all {len(rows)} comparisons agree"
    return Report(
        command="verify",
        model={},
        inputs=inputs,
        convention=CONVENTION,
        totals={"comparisons": len(rows), "failed": failed},
        rows=rows,
        tables=(Table(title, columns, rows),),
        notes=verdict.notes,
    )
