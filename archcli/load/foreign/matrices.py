"""The matrices of a model that adapters can target, with the names of their modules in the class."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archcli.arith import Number
from archcli.graph import Row
from archcli.load.foreign.class_names import ClassNames
from archcli.load.huggingface.weights.map import WeightMap
from archcli.load.huggingface.weights.modules import (
    MOST_NUMBERED,
    held_together,
    is_module,
    is_of_own_class,
    module_names,
)
from archcli.modules import Model
from archcli.modules.adapters.lora import HEAD, IN_LAYER, ROUTER, TABLES, USE, target_of
from archcli.modules.adapters.saved import can_be_saved
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline
from archcli.ops import Gather, Lookup

OF_ENCODER = re.compile(r"(^|\.)encoder\.")
OF_TABLE = re.compile(r"embed|wte|tokens|shared")
OF_HEAD = re.compile(r"head|pred|cls|proj")
"""Steps of a tied head's names among those of its table, such as cls.predictions.decoder."""
PARAMETERS = ("gate", "router")
"""Routers that are a module with a parameter in transformers 5: mlp.gate; a layer within them is linear."""
LINEAR_ROUTERS = ("hunyuan_v1_moe", "llama4", "llama4_text", "phimoe")
"""Types whose router by such a name is a linear layer."""


LINEAR_EXPERTS = ("nllb-moe", "switch_transformers")
"""Types whose experts are modules of linear layers in transformers 5, too."""


class Matrix(NamedTuple):
    """A matrix that an adapter can target.

    tail: its path without its layer's number, as a target names it (`mixer.q`, `decoder.attention.q`).
    word: the last step of that: q. row: the row of one of its layers. outputs, inputs: its sides.
    together: the tails of all matrices that lie in one with it, in their order.
    names: those of its module in the class, of each layer.
    is_linear: transformers 5 has it as a linear layer or a table, which peft can adapt.
    was_linear: transformers 4 had it so.
    numbers: its layers that have adapters of their own, [None] outside of layers.
    is_foreign: its module is of a class that peft refuses, neither torch's linear layer nor its table.
    """

    tail: str
    word: str
    together: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    row: Row
    is_linear: bool
    was_linear: bool
    numbers: tuple[int | None, ...]
    outputs: Number
    inputs: Number
    is_foreign: bool

    @property
    def is_table(self) -> bool:
        """Whether it is a table of vectors."""
        return isinstance(self.row.op, Lookup | Gather)

    @property
    def is_routed(self) -> bool:
        """Whether it is of experts, or of a router."""
        return bool(self.row.experts) or self.word == ROUTER


def all_matrices(
    model: Model, names: ClassNames, layers: LayerIndex, *, every_layer: bool
) -> Iterator[Matrix]:
    """All matrices that can have adapters, a row of several layers once, with the names of every layer."""
    rows = outline(model)
    tables = [row for row in rows if isinstance(row.op, Lookup) and row.op.name in TABLES]
    first: dict[str, tuple[tuple[str, ...], ...]] = {}
    for row in rows:
        word = target_of(row.op)
        if word is None or len(layers.stored_span(row)) > MOST_NUMBERED:
            continue
        paths = layers.stored_paths(row)[: None if every_layer else 1] or [row.path]
        called = tuple(_called(path, row, word, tables, names.weights) for path in paths)
        tail = tail_of(row.path)
        # a later use of a shared block goes by the names of its first
        called = first.get(tail, called) if row.stored == 0 else called
        first.setdefault(tail, called)
        is_foreign = is_of_own_class(row.path, names.weights)
        is_linear = isinstance(row.op, Lookup | Gather) or is_module(row.path, names.weights)
        is_routed = bool(row.experts) or word == ROUTER
        yield Matrix(
            tail,
            word,
            _together(row, names.weights),
            called,
            row,
            _is_linear_within(row, names) if is_routed else is_linear and not is_foreign,
            names.experts_apart if is_routed else is_linear,
            _numbers(row, layers),
            *_sizes(row, tables),
            is_foreign,
        )


def saved_by(entries: Sequence[str], model: Model, names: ClassNames) -> tuple[list[str], list[str]]:
    """The words of `lora.saved` for peft's modules_to_save, and the entries that mean nothing.

    An entry means every module whose name ends so, with all in it. ValueError for one with a weight of which
    no copy can be trained, and for layers by number.
    """
    rows = [row for row in outline(model) if row.weights or target_of(row.op) is not None]
    tables = [row for row in rows if isinstance(row.op, Lookup) and row.op.name in TABLES]
    saved, meant = [], set()
    for row in rows:
        called = _called(row.path, row, target_of(row.op) or "", tables, names.weights)
        modules = {name[:end] for name in called for end in (*_ends(name), len(name))}
        matching = {entry for entry in entries for module in modules if module.endswith(entry)}
        is_parameter = (row.experts or target_of(row.op) == ROUTER) and not _is_linear_within(row, names)
        if matching and (is_parameter or not can_be_saved(row.op)):
            raise ValueError(
                f"{min(matching)} holds {row.op.name}, which is no layer, table or norm by itself"
            )
        meant |= matching
        saved += [tail_of(row.path)] if matching else []
    numbered = next((entry for entry in entries if re.search(r"\.\d+\.", f".{entry}.")), None)
    if numbered is not None:
        raise ValueError(f"{numbered} names a layer by number")
    return [*dict.fromkeys(saved)], [entry for entry in entries if entry not in meant]


def _ends(name: str) -> Iterator[int]:
    return (i for i, letter in enumerate(name) if letter == ".")


def tail_of(path: str) -> str:
    """The path of a matrix without its layer's number, in the words of `lora.targets`."""
    place, _, name = IN_LAYER.sub("", path).rpartition(".")
    word = TABLES.get(name, name.removesuffix("_proj"))
    return f"{place}.{word}" if place else word


def _numbers(row: Row, layers: LayerIndex) -> tuple[int | None, ...]:
    if not any(row.path.startswith(prefix) for prefix in layers.prefixes):
        return (None,)
    is_use = USE in row.path.split(".")
    return (*(layers.span(row.path) if is_use else layers.stored_span(row)),)


def _together(row: Row, weights: WeightMap) -> tuple[str, ...]:
    # of experts that lie in one parameter only adapters of each by itself are asked about
    paths = (f"{row.path}.weight",) if row.experts else held_together(row.path, weights)
    return tuple(tail_of(path.removesuffix(".weight")) for path in paths)


def _is_linear_within(row: Row, names: ClassNames) -> bool:
    """Whether experts, or a router, are linear layers in transformers 5."""
    if row.experts:
        return names.kind in LINEAR_EXPERTS
    lasts = {name.rpartition(".")[2] for name in module_names(row.path, names.weights)}
    return names.kind in LINEAR_ROUTERS or lasts.isdisjoint(PARAMETERS)


def _sizes(row: Row, tables: Sequence[Row]) -> tuple[Number, Number]:
    """The outputs and inputs of a matrix, those of a tied head and of the source being its table's."""
    if "weight" in row.weights:
        # of blocks, one below the other in a matrix, the inputs of one
        *outputs, inputs = row.weights["weight"]
        return outputs[-1] * (outputs[0] if len(outputs) > 1 else 1), inputs
    entries, width = next((table.weights["weight"] for table in tables), (0, 0))
    return getattr(row.op, "out", entries), width


def _called(path: str, row: Row, word: str, tables: Sequence[Row], weights: WeightMap) -> tuple[str, ...]:
    """The names of a matrix's module; for fused experts, the names they would have one by one."""
    names = module_names(path, weights, experts=bool(row.experts))
    if tables and names == [path] and word in (HEAD, *TABLES.values()):
        # a tied head without a name of its own, or the source, goes by those of the table
        names = _of_table(module_names(tables[0].path, weights), row, word)
    elif isinstance(row.op, Lookup | Gather):
        names = _of_table(names, row, word)
    names += [f"{name.rpartition('.')[0]}.0.{row.op.name}" for name in names if row.experts]
    if row.experts or word == ROUTER:
        # a stack of experts, or the module of a router, is no matrix
        names = [name for name in names if not any(it.startswith(f"{name}.") for it in names)]
    return (*dict.fromkeys(names),)


def _of_table(names: list[str], row: Row, word: str) -> list[str]:
    """Those names of a table that are a tied head's, the encoder's, or the table's own."""
    heads = [it for it in names if OF_HEAD.search(it) and not OF_TABLE.search(it.rpartition(".")[2])]
    if word == HEAD:
        return heads or [HEAD]
    tables = [name for name in names if name not in heads] or names
    # no pass reads the module `shared`: encoder and decoder have tables tied to it
    tables = [name for name in tables if not name.endswith("shared")] or tables
    of_source = row.op.name == "source"
    return [name for name in tables if bool(OF_ENCODER.search(name)) == of_source] or tables
