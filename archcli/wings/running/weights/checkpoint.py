"""Compare a checkpoint with an architecture: names, shapes, and reasons for additional tensors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from archcli.arith import Shape, prod
from archcli.measure.passes import shape_pass
from archcli.measure.report import Column, Report, Table, facts
from archcli.measure.weights.stored_bytes import tensors, tower_tensors
from archcli.modules import Model
from archcli.units import short_count

if TYPE_CHECKING:
    from archcli.load.huggingface.weights.map import WeightMap, WeightTarget

Holders = dict[str, dict[int | None, tuple[str, bool]]]
"""By weight, and by expert (None: the whole): the stored tensor, and whether it is a copy."""

HEAD, TABLE = "lm_head.weight", "embedding.tokens.weight"
CONVENTION = (
    "Unique: each weight once, buffers not. Stored: every element of the checkpoint. Active: routed experts "
    "count k of E. A tensor is explained where its name says why it is stored besides the weights."
)
WRONG = ("missing", "shape", "unexpected", "sum")
EXPLAINED = ("buffer", "again", "packed", "extra")
EMPTY = "empty tensor"
BUFFER = "buffer: stored, not trained"
TIED = "tied weight, stored again"
PACKED = "packed weight, in fewer bits: its shape is not compared"
OTHER_HEAD = "head that this architecture's class does not have"


class Line(NamedTuple):
    """A tensor with its status, its name in the checkpoint and in the model, and its shape in both.

    status: fine are same; buffer (not trained); again (a second copy of a tied weight); packed (in fewer
    bits); extra (explained); unnamed (its family is unknown). Wrong are missing, shape, unexpected, sum.
    name, ours: in the checkpoint, and in the model.
    shape, needed: stored, and that of the model where it differs.
    reason: why it is stored besides the weights.
    holder: the stored tensor that has its place already.
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
    """A comparison: a line per tensor, targets of stored tensors, and pairs that should be equal."""

    lines: list[Line] = field(default_factory=list)
    places: dict[str, WeightTarget] = field(default_factory=dict)
    copies: list[tuple[str, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no tensor is missing, unexplained or of another shape."""
        return all(line.status not in WRONG for line in self.lines)


def compare(model: Model, stored: Mapping[str, Shape | None], weights: WeightMap) -> Comparison:
    """Compare tensors by name, with the family's table of names."""
    trained, buffers = tensors(model)
    # a file of the language model alone lacks no tower
    if weights.towers is not None and any(weights.towers.find(name) for name in stored):
        of_towers = tower_tensors(model)
        trained, buffers = trained | of_towers[0], buffers | of_towers[1]
    ours, comparison = {**trained, **buffers}, Comparison()
    holders: Holders = {}
    for name, shape in stored.items():
        place = weights.find(name)
        place = place if place is None else _through_the_tie(place, model, ours)
        if place is None or not all(name in ours for name in place.names):
            is_empty = shape is not None and 0 in shape
            reason = EMPTY if is_empty else weights.reason(name, shape) or _other_head(place, model, ours)
            comparison.lines.append(Line("extra" if reason else "unexpected", name, "", shape, None, reason))
            continue
        place = place._replace(packed=place.packed or weights.packed_beside(name, stored))
        line = _matched_line(Line("same", name, ", ".join(place.names), shape), place, ours, holders)
        if line.status == "same" and all(name in buffers for name in place.names):
            line = line._replace(status="buffer", reason=BUFFER)
        comparison.lines.append(line)
        if line.status == "again":
            comparison.copies.append((name, line.holder))
        comparison.places |= {name: place} if line.status in {"same", "buffer"} else {}
    comparison.lines += _missing(ours, holders, weights)
    return comparison


def as_stored(model: Model, stored: Iterable[str], weights: WeightMap) -> Model:
    """The model, its head tied if the checkpoint has no head and the class then ties it by itself."""
    if not weights.ties_unstored or model.embedding.tied or model.output_head is None:
        return model
    places = (weights.find(name) for name in stored)
    if any(place is not None and HEAD in place.names for place in places):
        return model
    return model.replace(embedding=model.embedding.replace(tied=True))


def _through_the_tie(place: WeightTarget, model: Model, ours: Mapping[str, Shape]) -> WeightTarget:
    """The target of a tensor; for a tied head the token embedding."""
    is_tied = model.embedding.tied and model.output_head is not None
    return place.renamed((TABLE,)) if is_tied and place.names == (HEAD,) and HEAD not in ours else place


def _other_head(place: WeightTarget | None, model: Model, ours: Mapping[str, Shape]) -> str:
    """The reason for a tensor of a pooler, a classifier or a head that the model lacks; else empty."""
    if place is None or (model.output_head is not None and place.names[0].startswith("lm_head.")):
        return ""
    part = place.names[0].split(".")[0]
    heads = {"pooler", "classifier", "lm_head", "lm_head_transform", "lm_head_norm"}
    return OTHER_HEAD if part in heads and not any(name.startswith(f"{part}.") for name in ours) else ""


def _matched_line(line: Line, place: WeightTarget, ours: Mapping[str, Shape], holders: Holders) -> Line:
    """The line of a tensor with a target: its shape fits or not, or the tensor is a duplicate."""
    # look up the holder first: the loop below enters this tensor
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
    """Lines of weights that no stored tensor holds, one per member of a stack."""
    for name, shape in ours.items():
        members = holders.get(name, {})
        if not members:
            yield Line("missing", weights.checkpoint_name(name) or name, name, None, shape)
        elif None not in members:
            holder, _ = next(iter(members.values()))
            place = weights.find(holder)
            for nth, of_member in () if place is None else place.members(shape):
                if nth not in members:
                    theirs = weights.checkpoint_name(name, nth) or name
                    yield Line("missing", theirs, f"{name}[{nth}]", None, of_member)


def compare_sums(model: Model, stored: Mapping[str, Shape | None], weights: WeightMap) -> Comparison:
    """Compare the total number of elements, for a checkpoint of an unknown family."""
    comparison = Comparison()
    for name, shape in stored.items():
        reason = weights.reason(name, shape)
        comparison.lines.append(Line("extra" if reason else "unnamed", name, "", shape, None, reason))
    sums = [sum(prod(shape) for shape in ours.values()) for ours in tensors(model)]
    n = elements(line for line in comparison.lines if line.status == "unnamed")
    # a checkpoint may or may not hold the buffers
    if n is None or n not in (sums[0], sum(sums)):
        number = "an unknown number of" if n is None else f"{n:,}"
        reason = f"{number} elements, and the architecture has {sums[0]:,}"
        comparison.lines.append(Line("sum", "all of these", "", None, None, reason))
    return comparison


def elements(lines: Iterable[Line]) -> int | None:
    """The number of elements of these tensors; None where a shape is unknown."""
    shapes = [line.shape for line in lines]
    return None if None in shapes else int(sum(prod(shape or ()) for shape in shapes))


def count_checkpoint(model: Model, source: str, comparison: Comparison, notes: Sequence[str] = ()) -> Report:
    """The report of `archcli params --against`."""
    rows = list(folded(comparison.lines))
    counted = shape_pass(model).rows
    stored = [line for line in comparison.lines if line.status not in ("missing", "sum")]
    statuses = Counter(line.status for line in comparison.lines)
    totals = {
        "params": sum(row.params for row in counted),
        "stored_elements": elements(stored),
        "active_params": sum(row.active_params for row in counted),
        "tensors": len(stored),
        "explained": sum(statuses[status] for status in EXPLAINED),
        "missing": statuses["missing"],
        "unexpected": statuses["unexpected"],
        "shape_differences": statuses["shape"],
        "ok": comparison.ok,
    }
    named = (
        ()
        if statuses["unnamed"]
        else ((f"{'all' if comparison.ok else 'not all'} tensors have their name and shape", "", "text"),)
    )
    lines = [("unique", "params"), ("stored", "stored_elements"), ("active", "active_params")]
    summary = facts(
        "Parameters",
        *((what, totals[key], "count") for what, key in lines),
        ("tensors", len(stored), "number"),
        *named,
    )
    tables = (summary, *_differences(rows), *_reasons(comparison.lines))
    inputs, headline = {"against": source}, _headline(totals)
    return Report("params", {}, inputs, CONVENTION, totals, rows, tables, tuple(notes), headline=headline)


def _headline(totals: Mapping[str, Any]) -> str:
    """`8.03B parameters, as the checkpoint's 291 tensors have them`, or how many differ."""
    params, tensors = f"{short_count(totals['params'])} parameters", f"{totals['tensors']:,} tensors"
    if totals["ok"]:
        return f"{params}, as the checkpoint's {tensors} have them"
    wrong = ("missing", "unexpected", "shape_differences")
    counts = [f"{totals[key]:,} {key.replace('_', ' ')}" for key in wrong if totals[key]]
    return f"{params}; the checkpoint's {tensors} differ: {', '.join(counts) or 'in elements'}"


def folded(lines: Iterable[Line]) -> Iterator[dict[str, Any]]:
    """One record for lines that differ only in an index, wrong ones first; `first` is an example."""
    groups: dict[Line, list[str]] = {}
    for line in lines:
        starred = line._replace(
            name=with_wildcards(line.name),
            ours=with_wildcards(line.ours),
            holder=with_wildcards(line.holder),
        )
        groups.setdefault(starred, []).append(line.name)
    order = {status: i for i, status in enumerate((*WRONG, *EXPLAINED))}
    for line, names in sorted(groups.items(), key=lambda item: order.get(item[0].status, len(order))):
        size = None if line.shape is None else int(prod(line.shape)) * len(names)
        named = line if len(names) > 1 else line._replace(name=names[0])
        yield {
            **named._asdict(),
            "ok": line.status not in WRONG,
            "times": len(names),
            "elements": size,
            "first": names[0],
        }


def with_wildcards(name: str) -> str:
    """The name with a star for each index: layers.*.attention."""
    # whole steps of a path alone: the 12 of layers.12, the 3 of experts[3], not the 2 of conv2
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
    """Tensors that are wrong, with stored and needed shape; empty columns are left out."""
    wrong = [
        {**row, **{key: shape_text(row[key]) for key in ("shape", "needed")}} for row in rows if not row["ok"]
    ]
    if all(row["times"] == 1 for row in wrong):
        wrong = [{**row, "times": "", "first": ""} for row in wrong]
    columns = [Column(key, title, "number" if key == "times" else "text") for key, title in TITLES.items()]
    shown = [column for column in columns if any(row[column.key] not in ("", "absent") for row in wrong)]
    if wrong:
        yield Table("Not explained", shown, wrong)


def shape_text(shape: Shape | None) -> str:
    """A shape as tables show it: 4×16."""
    return "absent" if shape is None else "×".join(map(str, shape)) or "scalar"


def _reasons(lines: Iterable[Line]) -> Iterator[Table]:
    """Tensors stored besides the weights, by reason."""
    by_reason: dict[str, list[Line]] = {}
    for line in lines:
        if line.status in EXPLAINED:
            by_reason.setdefault(line.reason, []).append(line)
    if by_reason:
        records = [
            {"reason": reason, "tensors": len(same), "elements": elements(same), "first": same[0].name}
            for reason, same in by_reason.items()
        ]
        columns = (
            Column("reason", "why"),
            Column("tensors", "tensors", "number"),
            Column("elements", "elements", "count"),
        )
        yield Table("Explained", (*columns, Column("first", "such as")), records)
