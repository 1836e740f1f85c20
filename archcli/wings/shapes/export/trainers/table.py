"""A trainer's config of a model: every setting has a row in the trainer's table, or is refused.

A row is keyed by the path of a setting, or a pattern of paths: `layer.attention.n_heads`, `*norm.eps`. It is
the trainer's key, which takes the value as it is; or the trainer's keys for each value; or a function of the
value and all settings at its place. A setting without a row has to be off: None, False, 0 or empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.wings.shapes.export.settings import Leaves, Settings

Row = str | Mapping[Any, Leaves] | Callable[[Any, Leaves], Leaves | None]
"""What a setting is in a trainer's config; None of a function: it cannot be written."""

NOTE = "note"
"""The key of a note to the user, in a row."""
LISTED = "[]"
"""The end of keys that have an entry for each layer."""
ATTENTION = "layer.attention."
PARTIAL = ("layer.ffn", "layer.attention.position")
"""What some layers alone may have: a list tells mixtures, or layers without RoPE, apart."""


def no_key(value: Any, at: Leaves) -> Leaves:
    """The row of a setting that the row of another one reads, or that has no effect on the architecture."""
    return {}


def biases(key: str, of_qkv: str) -> Row:
    """The row of attention's biases: of all matrices, as of those of networks, or of q, k and v alone."""
    keys = {True: {key: True}, False: {key: False}, ("q", "k", "v"): {key: False, of_qkv: True}}
    return lambda value, at: None if value and at[f"{ATTENTION}kind"] == "mla" else keys.get(value)


def value_width(key: str) -> Row:
    """The row of a head's width of values, which latent attention has a key for, and no other attention."""

    def row(width: int | None, at: Leaves) -> Leaves | None:
        if at[f"{ATTENTION}kind"] == "mla":
            return {key: width}
        return {} if width in {None, at[f"{ATTENTION}head_dim"]} else None

    return row


ON, ONE, SUM = {True: Leaves()}, {1.0: Leaves()}, {"sum": Leaves()}
USUAL: Mapping[str, Row] = {
    ".kind": no_key,  # once more as `kind`
    "layer..kind": no_key,
    "kind": {"decoder": {}},
    "final_norm": ON,
    "head": {},
    "head.kind": {"linear": {}},
    "head.scale": ONE,
    "embedding.kind": {"Embedding": {}},
    "embedding.position.kind": {"none": {}},
    "embedding.width_of": no_key,
    "layer.attention": {},
    "layer.ffn": {},
    "layer.normed": {"both": {}},
    "layer.attention.causal": ON,
    "layer.attention.normalizer": {"softmax": {}},
    "layer.attention.values": {"projected": {}},
    "layer.attention.form": no_key,
    "layer.attention.qk_norm.kind": {"QKNorm": {}},
    "layer.attention.qk_norm.when": {"before_rope": {}},
    "layer.attention.position.rotates": {"first": {}},
    "layer.ffn.router.kind": {"Router": {}},
    "layer.ffn.router.jitter": no_key,  # of scores that are in no table
    "layer.ffn.router.ranked_by": {"scores": {}},
    "layer.ffn.router.correction_is": {"buffer": {}},
    "layer.ffn.weigh": {"output": {}},
    "layer.ffn.combination": SUM,
    "layer.ffn*.limit_on": no_key,
    "*multiplier": ONE,
    "*norm.weight": ON,
}
"""Settings for which no trainer has a key, with the values that all of them mean."""


@dataclass(frozen=True)
class TrainingProgram:
    """A training program.

    always: keys of every config. finish: the config of what the rows say, lists of layers included; a text is
    what it cannot say. text: the file, by the model's name and the config.
    """

    name: str
    always: Leaves
    rows: Mapping[str, Row]
    finish: Callable[[Leaves], Leaves | str]
    text: Callable[[str, Leaves], str]

    def written(self, model: Model, name: str) -> tuple[str, tuple[str, ...]]:
        """The file of a model, and notes on it. Raises ArchError where a setting has no key."""
        settings = Settings(model)
        self.keys_of("kind", settings.outside.get("kind"), {})
        filled = Filled(self.name)
        filled.add(settings.outside, self._keys(settings.outside))
        keys: dict[int, dict[str, Leaves]] = {}
        for layer in settings.stacks[""]:
            at = {f"layer.{path}": value for path, value in layer.items()}
            if id(layer) not in keys:
                keys[id(layer)] = self._keys(at)
            filled.add(at, keys[id(layer)])
        filled.check_layers(len(settings.stacks[""]))
        config = self.finish({**self.always, **filled.values, "n_layers": len(settings.stacks[""])})
        if isinstance(config, str):
            raise refused(f"{self.name} has no key for {config}")
        return self.text(name, config), tuple(filled.notes)

    def _keys(self, at: Leaves) -> dict[str, Leaves]:
        return {path: self.keys_of(path, value, at) for path, value in at.items()}

    def keys_of(self, path: str, value: Any, at: Leaves) -> Leaves:
        """The trainer's keys of one of the settings `at` a place. Raises ArchError where there are none."""
        row = self._row(path)
        keys: Leaves | None
        if row is None:
            keys = None if value else {}
        elif isinstance(row, str):
            keys = {row: value}
        else:
            keys = row(value, at) if callable(row) else row.get(value)
        if keys is None:
            raise refused(f"{self.name} has no key for {path.removesuffix('.kind')} {shown(value)}")
        return keys

    def _row(self, path: str) -> Row | None:
        rows = {**USUAL, **self.rows}
        if path in rows:
            return rows[path]
        patterns = (*self.rows, *USUAL)
        return next((rows[pattern] for pattern in patterns if fnmatchcase(path, pattern)), None)


class Filled:
    """The keys that settings gave, each with the setting that gave it."""

    def __init__(self, trainer: str) -> None:
        """Begin without a key."""
        self.trainer = trainer
        self.values: Leaves = {}
        self.notes: dict[str, None] = {}
        self._source: dict[str, tuple[str, Any]] = {}
        self._layers: dict[str, int] = {}

    def add(self, at: Leaves, keys: Mapping[str, Leaves]) -> None:
        """Take the keys of all settings of a layer, or of those outside of layers."""
        for key in {key for values in keys.values() for key in values}:
            self._layers[key] = self._layers.get(key, 0) + 1
        for path, values in keys.items():
            for key, value in values.items():
                if key == NOTE:
                    self.notes[value] = None
                elif key.endswith(LISTED):
                    self.values.setdefault(key, []).append(value)
                else:
                    self._set(key, value, path, at[path])

    def _set(self, key: str, value: Any, path: str, setting: Any) -> None:
        first, before = self._source.setdefault(key, (path, setting))
        if self.values.setdefault(key, value) != value:
            ours = f"{first} {shown(before)} and {path} {shown(setting)}"
            raise refused(f"{self.trainer} has one {key}; the model has {ours}")

    def check_layers(self, n_layers: int) -> None:
        """ArchError where some layers alone have a setting that is one for all."""
        for key, (path, value) in self._source.items():
            alone = path.startswith("layer.") and not path.startswith(PARTIAL)
            if alone and self._layers[key] < n_layers:
                what = f"{path} {shown(value)} of {self._layers[key]} of {n_layers} layers"
                raise refused(f"{self.trainer} has no key for {what}")


def shown(value: Any) -> str:
    """A value as YAML writes it, but for texts without quotes."""
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else repr(value)


def refused(what: str) -> ArchError:
    """The error of what a trainer cannot express."""
    return ArchError(what, "--set changes a field; --to yaml writes all of them")


def as_yaml(keys: Leaves) -> str:
    """Keys and values as YAML, those that are None left out; its 1.1 takes 1e-05 for a text."""
    lines = (f"{key}: {json.dumps(value)}\n" for key, value in keys.items() if value is not None)
    return "".join(re.sub(r"\b(\d+)e([-+]\d+)", r"\1.0e\2", line) for line in lines)
