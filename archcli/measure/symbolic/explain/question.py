"""Question: what is to be explained of a model, and the symbols that its answer is written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError, Problem, suggest
from archcli.measure.symbolic.symbols import ModelSymbols, fields_named, size_names, sizes
from archcli.modules import Model
from archcli.modules.spec.arguments import CountedPairs, Quantity
from archcli.modules.spec.base import ends_in
from archcli.modules.spec.request import Request

MEANINGS = {
    "batch_size": "Sequences in the batch.",
    "seq_len": "New tokens of each sequence.",
    "past": "Tokens already in the cache.",
    "context": "Tokens in the cache.",
    "source_len": "Tokens that the encoder reads.",
    "n_layers": "Layers of the group.",
    "max_seq_len": "The context it was trained for.",
}
"""Sizes of a pass, and fields of which a class says more than a legend holds."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a quantity of a pass, and what is told beside its formula.

    `symbols` are the names that stay symbols, all where it is empty; `at` those whose growth is told;
    `path` the row of parameters that is explained alone.
    """

    quantity: Quantity = "params"
    request: Request = field(default_factory=Request)
    mask: CountedPairs = "exact"
    symbols: Sequence[str] = ()
    at: Sequence[str] = ()
    approx: bool = False
    steps: bool = False
    path: str | None = None
    latex: bool = False

    def sizes(self, model: Model) -> dict[str, int]:
        """The sizes of the pass by name, as far as the quantity depends on them."""
        if self.quantity == "params":
            return {}
        asked = self.request.resolved()
        if self.quantity == "kvcache":
            return {"batch_size": asked.batch_size, "context": asked.seq_len}
        tokens = {} if asked.phase == "decode" else {"seq_len": asked.seq_len}
        tokens |= {"past": asked.past} if asked.past else {}
        source = asked.source_len
        # an encoder of fixed length, such as Whisper's, has another length than the one asked for
        if source is not None and model.source_length(source) == source:
            tokens["source_len"] = source
        return {"batch_size": asked.batch_size, **tokens}

    def with_sizes(self, asked: Mapping[str, Number]) -> Request:
        """The request with symbols in the place of its sizes."""
        # the cache is read off a prefill, whose new tokens are the context
        named = {"seq_len" if name == "context" else name: size for name, size in asked.items()}
        return replace(self.request, **named)

    def symbols_of(self, model: Model) -> ModelSymbols:
        """The model with symbols as sizes: all, or those that are asked for by name."""
        asked = self.sizes(model)
        if not self.symbols:
            return ModelSymbols(model, asked)
        kept = {name for one in (*self.symbols, *self.at) for name in named(model, asked, one)}
        return ModelSymbols(model, asked, kept.__contains__)


def named(model: Model, asked: Mapping[str, int], name: str) -> list[str]:
    """The symbols that a user's name stands for: a symbol's own name, a field's name, or its full path.

    Raises ArchError for a name that no size has, and for fields of one name with different values.
    """
    by_path = size_names(model)
    known = dict.fromkeys((*asked, *by_path.values()))
    if name.replace(".", "_") in known:
        return [name.replace(".", "_")]
    fields = [path for path, _, value in sizes(model) if value is not None]
    if not any(ends_in(path, name.split(".")) for path in fields):
        bare = dict.fromkeys(path.rsplit(".", 1)[-1] for path in fields)
        raise ArchError(Problem("no size of this name", suggest(name, {**known, **bare}), path=name))
    symbols = [by_path[path] for path in fields_named(model, name) if path in by_path]
    if not symbols:
        raise ArchError(Problem("no formula contains it", suggest(name, known, "known are"), path=name))
    return list(dict.fromkeys(symbols))


def legend(model: Model, symbols: ModelSymbols, used: Any, meaning: Any) -> list[dict[str, Any]]:
    """A record for each symbol that is used: its name, value, meaning, and the fields it stands for.

    `meaning` says what a field of a class means.
    """
    specs = {path: type(spec) for path, spec, _ in sizes(model)}
    records = []
    for symbol, value in symbols.values.items():
        paths = symbols.paths.get(symbol, [])
        if symbol not in used:
            continue
        field_name = paths[0].rsplit(".", 1)[-1] if paths else ""
        told = MEANINGS.get(field_name or symbol.name)
        classes = dict.fromkeys(specs[path] for path in paths)
        several = dict.fromkeys(meaning(cls, field_name) for cls in classes) if told is None else [told]
        records.append({"symbol": symbol.name, "value": value, "meaning": " ".join(several), "fields": paths})
    return records
