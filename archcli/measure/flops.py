"""FLOPs of a pass, by component and by class of operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from archcli.arith import Number, rounded, whole
from archcli.graph import OpClass, Row
from archcli.measure.notes import (
    MEDIA,
    WHOLE,
    check_tokens,
    context_notes,
    form_notes,
    medium_in_words,
    medium_record,
    other_form_notes,
    plan_convention,
    plan_inputs,
    source_notes,
    tower_notes,
)
from archcli.measure.passes import Pass, checked_pass, medium_rows, usual_sizes
from archcli.measure.report import Column, Report, Table, Unit, facts
from archcli.modules import Model
from archcli.modules.spec.arguments import CountedPairs
from archcli.modules.spec.request import DEFAULT_LOGITS, Medium, Request, usual_tokens
from archcli.modules.spec.trace import MTP, is_prediction
from archcli.units import short_flops

CONVENTION = (
    "FLOP = 2 x multiply-add. matmul: matrix products, the router's included; "
    "non-matmul: all else, per element by the table of Ivanov et al. 2021."
)
MASKS = {
    "exact": "Attention pairs are those the mask allows.",
    "dense": "Attention pairs are all S x S, as torch's counter reports of eager attention.",
}


GROUPS = {"attention": "attention_proj", "recurrent": "recurrent_proj"}
"""Components of the projections of a group, which name none; the other ops of these groups do."""

AMOUNTS = ("matmul_flops", "other_flops")


def count_flops(
    model: Model, request: Request | None = None, *, mask: CountedPairs = "exact", macs: bool = False
) -> Report:
    """The report of `archcli flops`; with `macs` tables show multiply-adds, half as many."""
    request = request or Request(seq_len=usual_tokens(model.max_seq_len))
    check_tokens(model, request)
    unmasked = mask == "dense"
    counted, media = _counted(model, request, unmasked=unmasked)
    rows, classes = _folds(counted, unmasked=unmasked)
    matmul, other_flops = (sum(row[key] for row in rows) for key in AMOUNTS)
    # rounded only behind the sums: a share of targets or of zero experts makes FLOPs fractions
    rows = [{key: rounded(value) if key in AMOUNTS else value for key, value in row.items()} for row in rows]
    inputs = plan_inputs(model)
    sent = {"sent_elements": counted.sent_elements()} if inputs else {}
    totals = {
        "matmul_flops": rounded(matmul),
        "other_flops": rounded(other_flops),
        "macs": rounded(whole(matmul) // 2),
        "expected": counted.expected,
        "by_component": {row["component"]: row["matmul_flops"] for row in rows if row["matmul_flops"]},
        "by_class": classes,
        "tokens": (tokens := counted.batch_size * counted.new),
        **sent,
        "matmul_flops_per_token": _per(rounded(matmul), tokens),
        **media,
    }
    usual = {"mask": "exact", "logits": DEFAULT_LOGITS[counted.phase], **WHOLE}
    return Report(
        command="flops",
        model={"name": model.name, "source": model.source},
        inputs={**counted.inputs(), "mask": mask, "logits": counted.request.logits, **inputs},
        convention=f"{CONVENTION} {MASKS[mask]}{plan_convention(model)}",
        totals=totals,
        rows=rows,
        tables=tuple(_tables(totals, rows, macs=macs)),
        notes=(*_notes(model, request, counted, mask), *counted.expectations),
        usual={**usual_sizes(counted.phase), **usual},
        headline="; ".join(_answer(counted, totals, macs=macs)),
    )


def _counted(model: Model, request: Request, *, unmasked: bool) -> tuple[Pass, dict[str, Any]]:
    """The pass, and the totals of the images and sounds that it reads."""
    if model.towers:
        return _beside_towers(model, request, unmasked=unmasked)
    if not model.media:
        return checked_pass(model, request), {}
    media = request.media or model.fitted(request).media
    passes = [checked_pass(model, replace(request, media=(medium,))) for medium in media]
    entries = [
        _of_medium(medium, model.tokens_of(medium), _by_part(counted, model.part_of, unmasked=unmasked))
        for medium, counted in zip(media, passes, strict=True)
    ]
    first, length = passes[0], sum(counted.new for counted in passes)
    whole = replace(
        first,
        request=replace(first.request, seq_len=length, media=media),
        rows=tuple(row for counted in passes for row in counted.rows),
    )
    return whole, {"media": entries}


def _beside_towers(model: Model, request: Request, *, unmasked: bool) -> tuple[Pass, dict[str, Any]]:
    """The pass of the language model over text and media, and the totals of its towers for each medium."""
    counted = checked_pass(model, request)
    if not request.media:
        return counted, {}
    entries = []
    for medium in request.media:
        tower = model.tower_of(medium)
        rows = () if request.phase == "decode" else medium_rows(tower, medium, request)
        parts = _by_part(replace(counted, rows=rows), tower.part_of, unmasked=unmasked)
        entries.append(_of_medium(medium, tower.tokens_of(medium), parts))
    matmul, _ = counted.flops(unmasked=unmasked)
    return counted, {
        "media": entries,
        "prompt_tokens": _prompt_tokens(model, request, counted),
        "matmul_flops_with_towers": rounded(matmul) + sum(entry["matmul_flops"] for entry in entries),
    }


def _prompt_tokens(model: Model, request: Request, counted: Pass) -> Number:
    """Tokens of text and media, of an encoder-decoder those of its source."""
    if model.source_tokens(request.media):
        return counted.source_len
    return counted.past if request.phase == "decode" else counted.new + counted.past


def _by_part(counted: Pass, part_of: Callable[[Row], str], *, unmasked: bool) -> dict[str, int]:
    """FLOPs of matrix products by part."""
    parts: dict[str, Number] = {}
    for row, op_class, flops in counted.costs(unmasked=unmasked):
        if op_class is OpClass.CONTRACTION:
            parts[part_of(row)] = parts.get(part_of(row), 0) + flops
    return {part: rounded(flops) for part, flops in parts.items()}


def _of_medium(medium: Medium, tokens: int, by_part: dict[str, int]) -> dict[str, Any]:
    """The entry of one image or sound in `totals.media`."""
    return {
        **medium_record(medium, tokens),
        "matmul_flops": sum(by_part.values()),
        "by_part": by_part,
    }


def component(row: Row) -> str:
    """The component of a row: `mtp` for multi-token prediction, else the op's, else the group's."""
    if is_prediction(row):
        return MTP
    return row.op.component or GROUPS.get(row.group, row.group) or "other"


def _folds(counted: Pass, *, unmasked: bool) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """FLOPs by component, the largest first, and by class."""
    components: dict[str, dict[str, Any]] = {}
    classes: dict[str, int] = {}
    for row, op_class, flops in counted.costs(unmasked=unmasked):
        name = component(row)
        entry = components.setdefault(name, {"component": name, "matmul_flops": 0, "other_flops": 0})
        entry["matmul_flops" if op_class is OpClass.CONTRACTION else "other_flops"] += flops
        classes[op_class.value] = classes.get(op_class.value, 0) + flops
    rows = [entry for entry in components.values() if entry["matmul_flops"] or entry["other_flops"]]
    rows.sort(key=lambda entry: (-entry["matmul_flops"], -entry["other_flops"]))
    # every class, also one without FLOPs, so that the keys of the JSON are the same for all models
    return rows, {op_class.value: rounded(classes.get(op_class.value, 0)) for op_class in OpClass}


def _per(amount: int, count: int) -> float:
    """amount / count, as an int where it is a whole number."""
    return amount // count if amount % count == 0 else amount / count


def _tables(totals: dict[str, Any], rows: list[dict[str, Any]], *, macs: bool) -> Iterator[Table]:
    half, unit, word = (2, "macs", "MACs") if macs else (1, "flops", "FLOPs")
    shown: Unit = unit  # type: ignore[assignment]
    # only matrix products consist of multiply-adds: --macs leaves the other FLOPs as they are
    matmul, other_flops = totals["matmul_flops"] // half, totals["other_flops"]
    per_token = _per(matmul, totals["tokens"])
    expected = ", expected" if totals["expected"] else ""
    yield facts(
        word,
        (f"matmul {word}{expected}", matmul, shown),
        (f"non-matmul FLOPs{expected}", other_flops, "flops"),
        ("tokens", totals["tokens"], "number"),
        (f"matmul {word} per token", per_token, shown),
        *([("elements sent", totals["sent_elements"], "count")] if "sent_elements" in totals else ()),
    )
    if "prompt_tokens" in totals:
        yield _media(totals, half, word, shown)
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
    footer = {"component": "total", "matmul": matmul, "share": 1.0, "other": other_flops}
    yield Table("By component", (*columns, Column("other", "non-matmul FLOPs", "flops")), records, footer)
    by_class = [{"class": OpClass(name).label, "flops": n} for name, n in totals["by_class"].items()]
    yield Table(
        "By class of operation", (Column("class", "class"), Column("flops", "FLOPs", "flops")), by_class
    )


def _answer(counted: Pass, totals: dict[str, Any], *, macs: bool) -> Iterator[str]:
    """The answer: FLOPs of the pass and of a token, and what each image or sound costs."""
    half, unit = (2, "MAC") if macs else (1, "FLOP")
    expected = " expected" if totals["expected"] else ""
    matmul, tokens = totals["matmul_flops"] // half, totals["tokens"]
    yield f"{short_flops(matmul, unit)}{expected} for {_pass_in_words(counted)}"
    if tokens > 1:
        yield f"{short_flops(_per(matmul, tokens), unit)} a token"
    for entry in totals.get("media", ()):
        cost = short_flops(entry["matmul_flops"] // half, unit)
        yield f"{medium_in_words(entry)}: {entry['tokens']:,} tokens, {cost}"
    if "prompt_tokens" in totals:
        whole = totals["matmul_flops_with_towers"] // half
        yield f"{short_flops(whole, unit)} in all"


def _pass_in_words(counted: Pass) -> str:
    """`a forward of 2,048 tokens`, `a training step of 8 x 1,024 tokens`, `a decoded token after 8,000`."""
    n, past = counted.batch_size, counted.past
    after = f" after {past:,}" if past else ""
    if counted.phase == "decode":
        return f"a decoded token{after}" + (f" of each of {n:,} sequences" if n > 1 else "")
    name = {"train": "a training step"}.get(counted.phase, f"a {counted.phase}")
    return f"{name} of {f'{n:,} x ' if n > 1 else ''}{counted.new:,} tokens{after}"


def _media(totals: dict[str, Any], half: int, word: str, unit: Unit) -> Table:
    """What each image or sound costs before the language model, which the other tables are about."""
    columns = (
        Column("medium", "medium"),
        Column("tokens", "tokens", "number"),
        Column("matmul", f"matmul {word}", unit),
    )
    records = [
        {
            "medium": f"{medium_in_words(entry)}, {part}",
            "tokens": entry["tokens"] if place == 0 else None,
            "matmul": flops // half,
        }
        for entry in totals["media"]
        for place, (part, flops) in enumerate(entry["by_part"].items())
    ]
    footer = {
        "medium": "with the language model",
        "tokens": totals["prompt_tokens"],
        "matmul": totals["matmul_flops_with_towers"] // half,
    }
    return Table(MEDIA, columns, records, footer)


def _notes(model: Model, request: Request, counted: Pass, mask: CountedPairs) -> Iterator[str]:
    yield from context_notes(model, counted.new + counted.past)
    yield from tower_notes(model)
    # as asked for: `counted.request` has the defaults filled in
    yield from source_notes(model, request.source_len)
    yield from form_notes([model], request.forms)
    unmasked = mask == "dense"
    matmul, _ = counted.flops(unmasked=unmasked)
    yield from other_form_notes(model, counted.request, matmul, unmasked=unmasked)
