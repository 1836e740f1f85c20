"""FLOPs of one pass, by component and by class of operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from archcli.arith import rounded, whole
from archcli.errors import ArchError
from archcli.graph import OpClass, Row
from archcli.measure.passes import (
    MlaForm,
    Pass,
    Phase,
    beyond,
    decode_pass,
    find,
    forward_pass,
    is_prediction,
    prefill_pass,
    train_pass,
    with_mla,
    without_source,
)
from archcli.measure.report import Column, Report, Table, Unit, facts
from archcli.modules import Model, MultiHeadLatentAttention
from archcli.modules.mtp import MTP

Mask = Literal["exact", "dense"]
Logits = Literal["all", "last"]

CONVENTION = (
    "FLOP = 2 x multiply-add. matmul: matrix products, the router's included; "
    "other: the rest, per element by the table of Ivanov et al. 2021."
)
MASKS = {
    "exact": "Attention pairs are those the mask allows.",
    "dense": "Attention pairs are all S x S, as torch's counter reports of eager attention.",
}


GROUPS = {"attention": "attention_proj"}
"""Headings of groups some of whose ops have one of their own: what is left are the projections."""

AMOUNTS = ("matmul_flops", "other_flops")
EXPECTED = (
    "The head's cost depends on the targets: figures are expected values by cluster_shares, exact fractions, each rounded to a "
    "whole number once, at the end."
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the options of `archcli flops`, by the same names. None leaves a value to the phase."""

    phase: Phase = "forward"
    batch_size: int = 1
    seq_len: int = 2048
    past: int | None = None
    source_len: int | None = None
    mask: Mask = "exact"
    logits: Logits | None = None
    mla: MlaForm = "naive"


def count_flops(model: Model, question: Question | None = None, *, macs: bool = False) -> Report:
    """What `archcli flops` reports; with `macs` tables show multiply-adds, half as many."""
    question = settled(question or Question())
    counted = run_pass(with_mla(model, question.mla), question)
    rows, classes = _folds(counted, dense=question.mask == "dense")
    tokens = counted.batch_size * counted.new
    matmul, other = (sum(row[key] for row in rows) for key in AMOUNTS)
    rows = [{key: rounded(value) if key in AMOUNTS else value for key, value in row.items()} for row in rows]
    totals = {
        "matmul_flops": rounded(matmul),
        "other_flops": rounded(other),
        "macs": rounded(whole(matmul) // 2),
        "expected": counted.expected,
        "by_component": {row["component"]: row["matmul_flops"] for row in rows if row["matmul_flops"]},
        "by_class": classes,
        "tokens": tokens,
        "matmul_flops_per_token": _per(rounded(matmul), tokens),
    }
    return Report(
        command="flops",
        model={"name": model.name, "source": model.source},
        inputs=asdict(question),
        convention=f"{CONVENTION} {MASKS[question.mask]}",
        totals=totals,
        rows=rows,
        tables=tuple(_tables(totals, rows, macs=macs)),
        notes=(*_notes(model, question), *((EXPECTED,) if counted.expected else ())),
    )


def settled(question: Question) -> Question:
    """The question with what its phase decides filled in. Raises ArchError where options contradict each other."""
    given = asdict(question)
    logits = {"forward": "all", "train": "all", "prefill": "last", "decode": "last"}[question.phase]
    if question.phase == "train" and question.past:
        raise ArchError("training starts from an empty cache", "leave --past out")
    if question.phase == "train" and question.logits == "last":
        raise ArchError("training needs the logits at every position", "leave --logits out")
    if question.phase == "decode":
        past = question.seq_len if question.past is None else question.past
        return Question(**given | {"past": past, "seq_len": 1, "logits": "last"})
    return Question(**given | {"past": question.past or 0, "logits": question.logits or logits})


def run_pass(model: Model, question: Question) -> Pass:
    """The pass a settled question asks for."""
    batch, new, past, last = question.batch_size, question.seq_len, question.past, question.logits == "last"
    source = question.source_len
    if not model.caches and (question.phase in ("prefill", "decode") or past):
        raise ArchError("an encoder has no cache to fill and generates nothing", "--phase forward or train")
    if question.phase == "train":
        return train_pass(model, batch, new, source_len=source)
    if question.phase == "decode":
        return decode_pass(model, batch, past, source_len=source)
    if question.phase == "prefill" or past:
        return prefill_pass(model, batch, new, past, last_only=last, source_len=source)
    return forward_pass(model, batch, new, last_only=last, source_len=source)


def component(row: Row) -> str:
    """The heading a row's FLOPs stand under: the op's, else the group's; multi-token prediction has one in all."""
    if is_prediction(row):
        return MTP
    return row.op.component or GROUPS.get(row.group, row.group) or "other"


def _folds(counted: Pass, *, dense: bool) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """FLOPs by component, the largest first, and by class."""
    found: dict[str, dict[str, Any]] = {}
    classes: dict[str, int] = {}
    for row, op_class, flops in counted.costs(dense=dense):
        name = component(row)
        entry = found.setdefault(name, {"component": name, "matmul_flops": 0, "other_flops": 0})
        entry["matmul_flops" if op_class is OpClass.CONTRACTION else "other_flops"] += flops
        classes[op_class.value] = classes.get(op_class.value, 0) + flops
    rows = [entry for entry in found.values() if entry["matmul_flops"] or entry["other_flops"]]
    rows.sort(key=lambda entry: (-entry["matmul_flops"], -entry["other_flops"]))
    return rows, {op_class.value: rounded(classes.get(op_class.value, 0)) for op_class in OpClass}


def _per(amount: int, count: int) -> float:
    """The quotient, a whole number where it is one."""
    return amount // count if amount % count == 0 else amount / count


def _tables(totals: dict[str, Any], rows: list[dict[str, Any]], *, macs: bool) -> Iterator[Table]:
    half, unit, word = (2, "macs", "MACs") if macs else (1, "flops", "FLOPs")
    shown: Unit = unit  # type: ignore[assignment]
    matmul, other = totals["matmul_flops"] // half, totals["other_flops"]
    per_token = _per(matmul, totals["tokens"])
    expected = ", expected" if totals["expected"] else ""
    yield facts(
        word,
        (f"matmul {word}{expected}", matmul, shown),
        (f"other FLOPs{expected}", other, "flops"),
        ("tokens", totals["tokens"], "number"),
        (f"matmul {word} per token", per_token, shown),
    )
    columns = (
        Column("component", "component"),
        Column("matmul", f"matmul {word}", shown),
        Column("share", "share", "share"),
    )
    records = [
        {
            "component": r["component"],
            "matmul": r["matmul_flops"] // half,
            "share": r["matmul_flops"] / totals["matmul_flops"],
            "other": r["other_flops"],
        }
        for r in rows
    ]
    footer = {"component": "total", "matmul": matmul, "share": 1.0, "other": other}
    yield Table("By component", (*columns, Column("other", "other FLOPs", "flops")), records, footer)
    by_class = [{"class": name, "flops": n} for name, n in totals["by_class"].items()]
    yield Table(
        "By class of operation", (Column("class", "class"), Column("flops", "FLOPs", "flops")), by_class
    )


def _notes(model: Model, question: Question) -> Iterator[str]:
    yield from beyond(model, question.seq_len + (question.past or 0))
    yield from without_source(model, question.source_len)
    if question.mla == "absorbed" and not any(find(model, MultiHeadLatentAttention)):
        yield "--mla has no effect: no layer of this model is latent attention."
