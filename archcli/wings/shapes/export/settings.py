"""The settings of a model, one by one, and those in which two models differ.

Layers are compared by their place, however their groups are written: two patterns of three are six layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from archcli.measure.passes import forward_pass
from archcli.measure.survey.compare.differences import IDENTITY
from archcli.modules import Mixer, Model
from archcli.modules.models.stack import Group, Stack
from archcli.modules.spec.base import Spec
from archcli.modules.spec.kinds import kind_of

Leaves = dict[str, Any]
"""Values by their path."""

NO_ARCHITECTURE = {
    *(*IDENTITY, "ignore", "training", "loss", "lora", "quantization", "published_in", "towers", "beside"),
    *("uncounted", "unread", "unread_frozen"),
}
"""Fields of a model that say how it is called, stored or trained, and parts that stand beside it."""

LAYERS_WEIGH = 1000.0
"""The weight of a wrong number of layers: without the layers there is nothing to compare."""


class Settings:
    """Every value of a model by its path, defaults too; those of layers apart, by stack and layer."""

    def __init__(self, model: Model) -> None:
        """Read them off the model's fields."""
        self.outside: Leaves = {}
        self.stacks: dict[str, list[Leaves]] = {}
        self._d_model = model.d_model
        self._read(model, "")

    def _read(self, part: Spec, path: str) -> None:
        self.outside[f"{path}kind"] = _kind(part)
        for name in part.fields:
            value = getattr(part, name)
            if not path and name in NO_ARCHITECTURE:
                continue
            if isinstance(value, Stack):
                self._read(value, f"{path}{name}.")
            elif name == "groups" and isinstance(part, Stack):
                self.stacks[path] = [layer for group in value for layer in _layers(group, self._d_model)]
            else:
                self.outside.update(_leaves(value, f"{path}{name}"))

    @cached_property
    def kinds(self) -> dict[str, list[Leaves]]:
        """The distinct layers of each stack."""
        return {
            path: list({id(layer): layer for layer in layers}.values())
            for path, layers in self.stacks.items()
        }

    def everywhere(self) -> Iterator[tuple[str, Any]]:
        """(path, value) of all settings; those of equal layers once."""
        yield from self.outside.items()
        for path, kinds in self.kinds.items():
            yield f"{path}n_layers", len(self.stacks[path])
            for layer in kinds:
                yield from layer.items()

    def differing(self, wanted: Settings) -> Leaves:
        """The share of layers in which a setting differs, by its path; 1 outside of layers."""
        shares: dict[str, float] = dict.fromkeys(_unequal(self.outside, wanted.outside), 1.0)
        for path in {**self.stacks, **wanted.stacks}:
            ours, theirs = self.stacks.get(path, []), wanted.stacks.get(path, [])
            if len(ours) != len(theirs):
                shares[f"{path}n_layers"] = LAYERS_WEIGH
            for setting, layers in _differing_layers(ours, theirs).items():
                shares[f"{path}layers.{setting}"] = layers / max(len(ours), len(theirs))
        return shares


def _differing_layers(ours: list[Leaves], theirs: list[Leaves]) -> Counter[str]:
    """In how many layers each setting differs."""
    pairs = Counter((id(one), id(another)) for one, another in zip(ours, theirs, strict=False))
    by_id = {id(layer): layer for layer in (*ours, *theirs)}
    counted: Counter[str] = Counter()
    for (one, another), times in pairs.items():
        counted.update(dict.fromkeys(_unequal(by_id[one], by_id[another]), times))
    return counted


def _unequal(ours: Leaves, theirs: Leaves) -> list[str]:
    """Paths at which one has another value, or none."""
    missing = object()
    return [path for path in {**ours, **theirs} if ours.get(path, missing) != theirs.get(path, missing)]


def _layers(group: Group, d_model: int) -> Iterator[Leaves]:
    """The settings of each layer of a group; layers of one place of its pattern share them."""
    tied = {"tie": True} if group.tie else {}
    pattern = [{**dict(_leaves(block, "", d_model)), **tied} for block in group.blocks]
    for index in range(group.n_layers):
        yield pattern[index % len(pattern)]


def _leaves(value: Any, path: str, d_model: int = 0) -> Iterator[tuple[str, Any]]:
    """(path, value) of all values of a part; a width of heads that is left out is the one that it means."""
    below: Mapping[str, Any] | None = None
    if isinstance(value, Spec):
        below = {"kind": _kind(value), **{name: getattr(value, name) for name in value.fields}}
        if d_model and isinstance(value, Mixer) and below.get("head_dim", 0) is None:
            below["head_dim"] = value.facts(d_model).head_dim
    elif isinstance(value, Mapping):
        below = value
    elif isinstance(value, tuple) and any(isinstance(item, Spec) for item in value):
        below = {str(index): item for index, item in enumerate(value)}
    if below is None:
        yield path, value
        return
    for name, item in below.items():
        yield from _leaves(item, f"{path}.{name}" if path else name, d_model)


def _kind(part: Spec) -> str:
    return kind_of(type(part)) or type(part).__name__


SOME_TOKENS = 8


def runs_alike(one: Model, another: Model) -> bool:
    """Whether two models state one architecture: the same operations, with the same constants."""
    if (one.max_seq_len, one.d_model) != (another.max_seq_len, another.d_model):
        return False
    rows = [forward_pass(model, seq_len=SOME_TOKENS).rows for model in (one, another)]
    told = [
        [(row.path, repr(row.op), row.inputs, row.outputs, row.times, row.experts) for row in of]
        for of in rows
    ]
    return told[0] == told[1]
