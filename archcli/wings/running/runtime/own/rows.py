"""Rows of a watched run: calls of modules with their costs, equal layers folded into one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from torch import nn

from archcli.arith import Shape
from archcli.graph import OpClass, Part, Row
from archcli.wings.running.recording.own import ModuleCall, PathModule
from archcli.wings.running.runtime.own.watch import RanOp, Visit

GROUPS = (
    (r"position|\bpos_?emb|\bwpe\b", r"Embedding", "position_embedding"),
    (r"token_type", r"Embedding", "token_type_embedding"),
    (r"", r"Embedding(Bag)?$", "embedding"),
    (r"", r"Norm", "norms"),
    (r"\bexperts?\b", r"", "experts"),
    (r"\b(router|gate)$", r"", "router"),
    (r"", r"(Router|TopK|Gate)$", "router"),
    (r"attn|attention", r"", "attention"),
    (r"", r"Attention", "attention"),
    (r"\b(mlp|ffn?|feed_?forward|linear[12]|intermediate|fc\d?)\b", r"", "ffn"),
    (r"", r"(MLP|FeedForward)", "ffn"),
    (r"\b(mamba|mixer|ssm|rnn|lstm|gru)\b", r"", "recurrent"),
    (r"", r"^(LSTM|GRU|RNN|LSTMCell|GRUCell|RNNCell)$|Mamba|Mixer", "recurrent"),
    (r"pooler", r"", "pooler"),
    (r"^(lm_head|head|heads|classifier|score|fc|qa_outputs|output|proj_out)\b", r"", "lm_head"),
    (r"", r"Conv\d", "convolution"),
)
"""The group of a row by its path and the name of its class: the first line that fits both."""


def group_of(path: str, class_name: str) -> str:
    """The group that a module is counted under, by its place and its class; else other."""
    return next(
        (group for at, of, group in GROUPS if re.search(at, path) and re.search(of, class_name)), "other"
    )


class Owned(NamedTuple):
    """Parameters by the module that owns them: shapes by name, whether any is trained, and what is tied."""

    shapes: dict[str, dict[str, Shape]]
    trained: dict[str, bool]
    ties: list[str]


def owned_weights(module: nn.Module) -> Owned:
    """The parameters of a module, tied ones with their first owner alone."""
    owned = Owned({}, {}, [])
    first: dict[int, str] = {}
    for name, weight in module.named_parameters(remove_duplicate=False):
        path, _, weight_name = name.rpartition(".")
        if id(weight) in first:
            owned.ties.append(f"{name} is {first[id(weight)]}")
            continue
        first[id(weight)] = name
        owned.shapes.setdefault(path, {})[weight_name] = tuple(weight.shape)
        owned.trained[path] = owned.trained.get(path, False) or weight.requires_grad
    return owned


def rows_of(module: nn.Module, visits: Iterable[Visit], owned: Owned) -> list[Row]:
    """A row for each module that runs operations of its own or owns weights; equal layers are one."""
    classes = {path: type(child).__name__ for path, child in module.named_modules(remove_duplicate=False)}
    by_path: dict[str, list[Visit]] = {}
    for visit in visits:
        by_path.setdefault(visit.path, []).append(visit)
    calls = {path: len(of_path) for path, of_path in by_path.items()}
    holders = {path: PathModule(name, calls.get(path, 1)) for path, name in classes.items()}
    for path in owned.shapes:
        by_path.setdefault(path, [])  # never called: what uses its weights is elsewhere, or nothing is
    rows = [row for path, of_path in by_path.items() for row in _rows_at(path, of_path, owned, holders)]
    folded = _folded([(row.path.split(".") if row.path else [], row) for row in rows])
    return [replace(row, path=path) for path, row in folded]


def _rows_at(
    path: str, calls: Sequence[Visit], owned: Owned, holders: dict[str, PathModule]
) -> Iterator[Row]:
    """The rows of one module: one for all its calls that are equal."""
    weights = owned.shapes.get(path, {})
    rows: dict[object, Row] = {}
    for visit in calls or [Visit(0, path, holders[path].class_name)]:
        if not visit.ran and not (weights and not rows):
            continue
        parts = _parts(visit.ran)
        key = (visit.inputs, visit.outputs, parts)
        if key in rows:
            rows[key] = replace(rows[key], times=rows[key].times + 1)
            continue
        # weights are stored once, with the first of several kinds of call
        stored = {} if rows else weights
        rows[key] = Row(
            path=path,
            group=group_of(path, visit.class_name),
            op=ModuleCall(path.rpartition(".")[2], visit.class_name, _way(path, holders)),
            inputs=visit.inputs,
            outputs=visit.outputs,
            weights=stored,
            parts=parts,
            states=(),
            times=1,
            experts=None,
            trained=owned.trained.get(path, True),
            stored=int(bool(stored)),
        )
    yield from rows.values()


def _way(path: str, holders: dict[str, PathModule]) -> tuple[PathModule, ...]:
    """The module itself, those on the way, and the one at the path."""
    steps = path.split(".") if path else []
    return tuple(holders[".".join(steps[:i])] for i in range(len(steps) + 1))


def _parts(ran: Sequence[RanOp]) -> tuple[Part, ...]:
    """Each contraction, and what else ran by its class; all that ran backward belongs to the first."""
    forward = list(_by_class([op for op in ran if op.stage == "forward"]))
    backward = tuple(_by_class([op for op in ran if op.stage == "backward"]))
    if backward and not forward:
        forward = [Part("forward", OpClass.MOVEMENT, 0, 0, 0)]
    return (replace(forward[0], backward=backward), *forward[1:]) if backward else tuple(forward)


def _by_class(ran: Sequence[RanOp]) -> Iterator[Part]:
    products = [op for op in ran if op.cost.op_class is OpClass.CONTRACTION]
    counts: dict[str, int] = {}
    for op in products:
        counts[op.name] = counts.get(op.name, 0) + 1
        name = op.name if counts[op.name] == 1 else f"{op.name} {counts[op.name]}"
        yield _part(name, [op])
    for op_class in OpClass:
        others = [op for op in ran if op.cost.op_class is op_class]
        if others and op_class is not OpClass.CONTRACTION:
            yield _part(op_class.value, others)


def _part(name: str, ran: Sequence[RanOp]) -> Part:
    flops, executed = sum(op.cost.flops for op in ran), sum(op.cost.executed for op in ran)
    read, written = sum(op.read for op in ran), sum(op.written for op in ran)
    different = executed if executed != flops else None
    return Part(name, ran[0].cost.op_class, flops, read, written, executed=different)


Placed = tuple[list[str], Row]
"""The steps of a row's path that are still to be folded, and the row."""


def _folded(placed: Sequence[Placed]) -> list[tuple[str, Row]]:
    """Rows below a path, siblings of whole numbers that are equal in all folded: `layers.*`, `layers.0-2`."""
    below: dict[str, list[Placed]] = {}
    here: list[tuple[str, Row]] = []
    for steps, row in placed:
        if steps:
            below.setdefault(steps[0], []).append((steps[1:], row))
        else:
            here.append(("", row))
    children = {step: _folded(rows) for step, rows in below.items()}
    for steps, rows in _alike(children):
        name = _joined(steps, [step for step in children if step.isdecimal()])
        here += [_repeated(name, inner, row, len(steps)) for inner, row in rows]
    return here


def _alike(
    children: dict[str, list[tuple[str, Row]]],
) -> list[tuple[list[str], list[tuple[str, Row]]]]:
    """Children with equal rows together, at the place of the first; only whole numbers are joined."""
    groups: dict[object, tuple[list[str], list[tuple[str, Row]]]] = {}
    for step, rows in children.items():
        key = tuple(_signature(path, row) for path, row in rows) if step.isdecimal() else step
        groups.setdefault(key, ([], rows))[0].append(step)
    return list(groups.values())


def _signature(path: str, row: Row) -> object:
    call = row.op
    return (
        path,
        row.group,
        type(call) is ModuleCall and call.class_name,
        row.inputs,
        row.outputs,
        tuple(row.weights.items()),
        row.parts,
        row.times,
        row.stored,
        row.trained,
    )


def _joined(steps: list[str], siblings: list[str]) -> str:
    """The name of equal siblings: `*` where they are all, `0-2,5` where they are some."""
    if len(steps) == 1:
        return steps[0]
    if len(steps) == len(siblings):
        return "*"
    numbers = [int(step) for step in steps]
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    names = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    return ",".join(names)


def _repeated(path: str, inner: str, row: Row, times: int) -> tuple[str, Row]:
    """A row in place of those of `times` equal siblings, by its path from here."""
    whole = f"{path}.{inner}" if inner else path
    if times == 1:
        return whole, row
    op, stored = row.op, row.stored
    if type(op) is ModuleCall:
        above = len(op.holders) - 1 - whole.count(".")
        below = tuple(holder._replace(times=holder.times * times) for holder in op.holders[above:])
        op = replace(op, holders=op.holders[:above] + below)
    stored = None if stored is None else stored * times
    return whole, replace(row, op=op, times=row.times * times, stored=stored)
