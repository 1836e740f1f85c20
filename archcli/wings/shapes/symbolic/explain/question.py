"""Question: the quantity to explain of a model, and the symbols of its formula."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from archcli.arith import Number
from archcli.errors import ArchError, Problem, suggest
from archcli.modules import Model
from archcli.modules.spec.arguments import CountedPairs, Quantity
from archcli.modules.spec.base import ends_in
from archcli.modules.spec.request import Request
from archcli.wings.shapes.symbolic.symbols import ModelSymbols, fields_named, size_names, sizes

MEANINGS = {
    "batch_size": "Sequences in the batch.",
    "seq_len": "New tokens of each sequence.",
    "past": "Tokens already in the cache.",
    "context": "Tokens in the cache.",
    "source_len": "Tokens that the encoder reads.",
    "n_layers": "Layers of the group.",
    "max_seq_len": "The context it was trained for.",
}
"""Meanings in a legend of sizes of a pass, and of fields with longer docstrings."""


@dataclass(frozen=True, slots=True)
class Question:
    """A quantity of a pass, and what to show beside its formula.

    symbols: names of the sizes that stay symbols; all if empty.
    at: names of the sizes whose growth is shown.
    path: the module whose parameters are explained alone.
    part: the tower that is explained, of a model with towers; the model is then that tower.
    """

    quantity: Quantity = "params"
    request: Request = field(default_factory=Request)
    mask: CountedPairs = "exact"
    symbols: Sequence[str] = ()
    at: Sequence[str] = ()
    approx: bool = False
    steps: bool = False
    path: str | None = None
    part: str | None = None
    latex: bool = False

    def sizes(self, model: Model) -> dict[str, int]:
        """The sizes of the pass by name, as far as the quantity depends on them."""
        if self.quantity == "params":
            return {}
        request = self.request.resolved()
        if self.part is not None:
            return {"batch_size": request.batch_size}
        if self.quantity == "kvcache":
            return {"batch_size": request.batch_size, "context": request.seq_len}
        tokens = {} if request.phase == "decode" else {"seq_len": request.seq_len}
        tokens |= {"past": request.past} if request.past else {}
        source = request.source_len
        # an encoder of fixed length, such as Whisper's, has another length than the one asked for
        if source is not None and model.source_length(source) == source:
            tokens["source_len"] = source
        return {"batch_size": request.batch_size, **tokens}

    def with_sizes(self, symbols: Mapping[str, Number]) -> Request:
        """The request with symbols in the place of its sizes."""
        # the cache is read off a prefill, whose new tokens are the context
        by_field = {"seq_len" if name == "context" else name: symbol for name, symbol in symbols.items()}
        return replace(self.request, **by_field)

    def symbols_of(self, model: Model) -> ModelSymbols:
        """The model with symbols as sizes: all, or those that are asked for by name."""
        of_pass = self.sizes(model)
        if not self.symbols:
            return ModelSymbols(model, of_pass)
        kept = {name for text in (*self.symbols, *self.at) for name in named(model, of_pass, text)}
        return ModelSymbols(model, of_pass, kept.__contains__)


def named(model: Model, of_pass: Mapping[str, int], name: str) -> list[str]:
    """The symbols that a user's name stands for: a symbol's own name, a field's name, or its full path.

    `of_pass` are the sizes of the pass. Raises ArchError for a name that no size has, and for fields of one
    name with different values.
    """
    by_path = size_names(model)
    known = dict.fromkeys((*of_pass, *by_path.values()))
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
        short = MEANINGS.get(field_name or symbol.name)
        classes = dict.fromkeys(specs[path] for path in paths)
        meanings = dict.fromkeys(meaning(cls, field_name) for cls in classes) if short is None else [short]
        records.append(
            {"symbol": symbol.name, "value": value, "meaning": " ".join(meanings), "fields": paths}
        )
    return records
