"""A checkpoint beside an architecture: each stored tensor under the name and shape that ours need, and why any other is there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.arith import Shape, prod
from archcli.measure.passes import forward_pass
from archcli.measure.report import Column, Report, Table, facts
from archcli.measure.weights.state_dict import tensors
from archcli.modules import Model

if TYPE_CHECKING:
    from archcli.load.huggingface.weights.map import WeightMap, WeightTarget

Holders = dict[str, dict[int | None, tuple[str, bool]]]

HEAD, TABLE = "lm_head.weight", "embedding.tokens.weight"
CONVENTION = (
    "Unique: each weight once, buffers not. Stored: every element of the checkpoint. Active: routed experts count k of E. "
    "A tensor is explained where its name says why it is stored besides the weights."
)
WRONG = ("missing", "shape", "unexpected", "sum")
EXPLAINED = ("buffer", "again", "packed", "extra")
EMPTY = "empty tensor"
BUFFER = "buffer: stored, not trained"
TIED = "tied weight, stored again"
PACKED = "packed weight, in fewer bits: its shape is not compared"
OTHER_HEAD = "head that this architecture's class does not have"


class Line(NamedTuple):
    """One tensor: what became of it, their name and ours, the shape it has and the one it needs, why it is there, and who has its place.

    Statuses that are fine: same; buffer (ours too, and not trained); again (a second copy of a tied weight); packed (in
    fewer bits); extra (explained); unnamed (its family is unknown). Those that are not: missing, shape, unexpected, sum.
    """

    status: str
    name: str
    ours: str = ""
    shape: Shape | None = None
    needed: Shape | None = None
    reason: str = ""
    holder: str = ""


@dataclass
class Comparison:
    """Every line, where each stored tensor goes that has a place, and the names of tensors that should be equal."""

    lines: list[Line] = field(default_factory=list)
    places: dict[str, WeightTarget] = field(default_factory=dict)
    copies: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is missing, misshapen or unexplained."""
        return all(line.status not in WRONG for line in self.lines)


def compare(model: Model, stored: Mapping[str, Shape | None], weights: WeightMap) -> Comparison:
    """Every stored tensor under its name, and what is missing, by the family's table of names."""
    trained, buffers = tensors(model)
    ours, found = {**trained, **buffers}, Comparison()
    holders: Holders = {}
    for name, shape in stored.items():
        place = weights.find(name)
        place = place if place is None else _through_the_tie(place, model, ours)
        if place is None or not all(one in ours for one in place.names):
            reason = (
                EMPTY
                if shape and 0 in shape
                else weights.reason(name, shape) or _other_head(place, model, ours)
            )
            found.lines.append(Line("extra" if reason else "unexpected", name, "", shape, None, reason))
            continue
        place = place._replace(packed=place.packed or weights.packed_beside(name, stored))
        line = _placed(Line("same", name, ", ".join(place.names), shape), place, ours, holders)
        if line.status == "same" and all(one in buffers for one in place.names):
            line = line._replace(status="buffer", reason=BUFFER)
        found.lines.append(line)
        if line.status == "again":
            found.copies.append((name, line.holder))
        found.places |= {name: place} if line.status in {"same", "buffer"} else {}
    found.lines += _missing(ours, holders, weights)
    return found


def _through_the_tie(place: WeightTarget, model: Model, ours: Mapping[str, Shape]) -> WeightTarget:
    """The head's weight is the table's where the two are one."""
    if (
        place.names == (HEAD,)
        and HEAD not in ours
        and model.embedding.tied
        and getattr(model, "head", None) is not None
    ):
        return place.renamed((TABLE,))
    return place


def _other_head(place: WeightTarget | None, model: Model, ours: Mapping[str, Shape]) -> str:
    """Whether the tensor is part of a pooler, a classifier or a head that this class does not have at all."""
    if place is None or (getattr(model, "head", None) is not None and place.names[0].startswith("lm_head.")):
        return ""
    part = place.names[0].split(".")[0]
    heads = {"pooler", "classifier", "lm_head", "lm_head_transform", "lm_head_norm"}
    return OTHER_HEAD if part in heads and not any(name.startswith(f"{part}.") for name in ours) else ""


def _placed(line: Line, place: WeightTarget, ours: Mapping[str, Shape], holders: Holders) -> Line:
    """A tensor that has a place: whether it fits, and whether it is the first to take it."""
    taken = next(
        (holders[name][place.nth] for name in place.names if place.nth in holders.get(name, {})), None
    )
    for name in place.names:
        holders.setdefault(name, {}).setdefault(place.nth, (line.name, place.parts.again))
    needed = place.stored_shape(ours)
    if place.packed:
        return line._replace(status="packed", reason=PACKED)
    if line.shape is not None and line.shape != needed:
        return line._replace(status="shape", needed=needed)
    if taken is None:
        return line
    holder, again = taken
    tied = again or place.parts.again
    return line._replace(
        status="again" if tied else "unexpected", reason=TIED if tied else "stored twice", holder=holder
    )


def _missing(ours: Mapping[str, Shape], holders: Holders, weights: WeightMap) -> Iterator[Line]:
    """What no stored tensor holds; of a stack, each of its members that none does."""
    for name, shape in ours.items():
        held = holders.get(name, {})
        if not held:
            yield Line("missing", weights.theirs(name) or name, name, None, shape)
        elif None not in held:
            lost = (nth for nth in range(shape[0]) if nth not in held)
            yield from (
                Line("missing", weights.theirs(name, nth) or name, f"{name}[{nth}]", None, shape[1:])
                for nth in lost
            )


def compare_sums(model: Model, stored: Mapping[str, Shape | None], weights: WeightMap) -> Comparison:
    """For a checkpoint of an unknown family: whether what has no explanation is as many elements as the architecture has."""
    found = Comparison()
    for name, shape in stored.items():
        reason = weights.reason(name, shape)
        found.lines.append(Line("extra" if reason else "unnamed", name, "", shape, None, reason))
    sums = [sum(prod(shape) for shape in ours.values()) for ours in tensors(model)]
    unnamed = [line for line in found.lines if line.status == "unnamed"]
    held = elements(unnamed)
    if held is None or held not in (sums[0], sum(sums)):
        reason = f"{'an unknown number of' if held is None else f'{held:,}'} elements, and the architecture has {sums[0]:,}"
        found.lines.append(Line("sum", "all of these", "", None, None, reason))
    return found


def elements(lines: Iterable[Line]) -> int | None:
    """How many elements the tensors of these lines hold; None where the shape of one is unknown."""
    shapes = [line.shape for line in lines]
    return None if None in shapes else int(sum(prod(shape or ()) for shape in shapes))


def count_checkpoint(model: Model, source: str, found: Comparison, notes: Sequence[str] = ()) -> Report:
    """What `archcli params --against` reports."""
    rows = list(folded(found.lines))
    counted = forward_pass(model, 1, 1).rows
    stored = [line for line in found.lines if line.status not in ("missing", "sum")]
    statuses = Counter(line.status for line in found.lines)
    totals = {
        "params": sum(row.params for row in counted),
        "stored_elements": elements(stored),
        "active_params": sum(row.active_params for row in counted),
        "tensors": len(stored),
        "explained": sum(statuses[status] for status in EXPLAINED),
        "missing": statuses["missing"],
        "unexpected": statuses["unexpected"],
        "shape_differences": statuses["shape"],
        "ok": found.ok,
    }
    named = (
        ()
        if statuses["unnamed"]
        else ((f"{'all' if found.ok else 'not all'} tensors have their name and shape", "", "text"),)
    )
    lines = [("unique", "params"), ("stored", "stored_elements"), ("active", "active_params")]
    summary = facts(
        "Parameters",
        *((what, totals[key], "count") for what, key in lines),
        ("tensors", len(stored), "number"),
        *named,
    )
    tables = (summary, *_differences(rows), *_reasons(found.lines))
    return Report("params", {}, {"against": source}, CONVENTION, totals, rows, tables, tuple(notes))


def folded(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """A record for all lines that differ in an index alone, what is wrong first; `first` is the name of the first of them."""
    found: dict[Line, list[str]] = {}
    for line in lines:
        starred = line._replace(
            name=_starred(line.name), ours=_starred(line.ours), holder=_starred(line.holder)
        )
        found.setdefault(starred, []).append(line.name)
    order = {status: i for i, status in enumerate((*WRONG, *EXPLAINED))}
    for line, names in sorted(found.items(), key=lambda item: order.get(item[0].status, len(order))):
        size = None if line.shape is None else int(prod(line.shape)) * len(names)
        own = line if len(names) > 1 else line._replace(name=names[0])
        yield {
            **own._asdict(),
            "ok": line.status not in WRONG,
            "times": len(names),
            "elements": size,
            "first": names[0],
        }


def _starred(name: str) -> str:
    return re.sub(r"(?<![^.\[ ])\d+(?![^.\]:])", "*", name)


TITLES = {
    "status": "what",
    "name": "tensor",
    "times": "times",
    "shape": "stored",
    "needed": "needed",
    "reason": "why",
    "holder": "as",
    "first": "first",
}


def _differences(rows: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    """What is wrong, as it is stored and as it is needed; columns that say nothing are left out."""
    wrong = [
        {**row, **{key: shape_text(row[key]) for key in ("shape", "needed")}} for row in rows if not row["ok"]
    ]
    if all(row["times"] == 1 for row in wrong):
        wrong = [{**row, "times": "", "first": ""} for row in wrong]
    columns = [Column(key, title, "number" if key == "times" else "text") for key, title in TITLES.items()]
    told = [column for column in columns if any(row[column.key] not in ("", "absent") for row in wrong)]
    if wrong:
        yield Table("Not explained", told, wrong)


def shape_text(shape: Shape | None) -> str:
    """A shape as tables show it: 4×16."""
    return "absent" if shape is None else "×".join(map(str, shape)) or "scalar"


def _reasons(lines: Iterable[Line]) -> Iterator[Table]:
    """What is stored besides the weights, by reason."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        if line.status in EXPLAINED:
            found.setdefault(line.reason, []).append(line)
    if found:
        records = [
            {"reason": reason, "tensors": len(same), "elements": elements(same), "first": same[0].name}
            for reason, same in found.items()
        ]
        columns = (
            Column("reason", "why"),
            Column("tensors", "tensors", "number"),
            Column("elements", "elements", "count"),
        )
        yield Table("Explained", (*columns, Column("first", "such as")), records)
