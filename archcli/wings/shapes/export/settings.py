"""The settings of a model, one by one, and those in which two models differ.

Layers are compared by their place, however their groups are written: two patterns of three are six layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from archcli.measure.passes import train_pass
from archcli.measure.survey.compare.differences import IDENTITY
from archcli.modules import Mixer, Model
from archcli.modules.models.stack import Group, stacks
from archcli.modules.spec.base import Spec, find, settings
from archcli.modules.spec.kinds import kind_of

Leaves = dict[str, Any]
"""Values by their path."""

NO_ARCHITECTURE = {
    *(*IDENTITY, "ignore", "training", "loss", "lora", "quantization", "published_in", "towers", "beside"),
    *("uncounted", "unread", "unread_frozen"),
}
"""Fields of a model that say how it is called, stored or trained, and parts that stand beside it."""

CONTEXT, GROUPS = "max_seq_len", "groups."
SOME_TOKENS = 8
LAYERS_WEIGH = 1000.0
"""The weight of a wrong number of layers: without the layers there is nothing to compare."""


class Settings:
    """Every value of a model by its path, defaults too; those of layers apart, by stack and layer."""

    def __init__(self, model: Model) -> None:
        """Read them off the model's fields."""
        layered = tuple(f"{prefix}{GROUPS}" for prefix, _ in stacks(model))
        self.outside: Leaves = {
            path: value
            for path, value in _leaves(model).items()
            if path.split(".")[0] not in NO_ARCHITECTURE and not path.startswith(layered)
        }
        self.stacks: dict[str, list[Leaves]] = {
            prefix: [layer for group in stack.groups for layer in _layers(group, model.d_model)]
            for prefix, stack in stacks(model)
        }

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
        shares: dict[str, float] = dict.fromkeys(unequal(self.outside, wanted.outside), 1.0)
        if wanted.outside[CONTEXT] is None:  # a class has one, whatever its file says
            shares.pop(CONTEXT, None)
        for path in {**self.stacks, **wanted.stacks}:
            ours, theirs = self.stacks.get(path, []), wanted.stacks.get(path, [])
            if len(ours) != len(theirs):
                shares[f"{path}n_layers"] = LAYERS_WEIGH
            for setting, layers in _differing_layers(ours, theirs).items():
                shares[f"{path}layers.{setting}"] = layers / max(len(ours), len(theirs))
        return shares


def _differing_layers(ours: list[Leaves], theirs: list[Leaves]) -> Counter[str]:
    """In how many layers each setting differs."""
    by_id = {id(layer): layer for layer in (*ours, *theirs)}
    counted: Counter[str] = Counter()
    pairs = Counter(zip(map(id, ours), map(id, theirs), strict=False))
    for (our_id, their_id), times in pairs.items():
        counted.update(dict.fromkeys(unequal(by_id[our_id], by_id[their_id]), times))
    return counted


def unequal(ours: Leaves, theirs: Leaves) -> list[str]:
    """Paths at which two have different values, or one has none."""
    missing = object()
    return [path for path in {**ours, **theirs} if ours.get(path, missing) != theirs.get(path, missing)]


def _layers(group: Group, d_model: int) -> Iterator[Leaves]:
    """The settings of each layer of a group; layers of one place of its pattern share them."""
    tied = {"tie": True} if group.tie else {}
    pattern = [{**_leaves(block, d_model), **tied} for block in group.blocks]
    for index in range(group.n_layers):
        yield pattern[index % len(pattern)]


def _leaves(part: Spec, d_model: int = 0) -> Leaves:
    """All values of a part and the kinds of its parts; a width of heads that is left out is what it means."""
    kinds = {f"{path}.kind": kind_of(type(it)) or type(it).__name__ for path, it in find(part, Spec)}
    widths = {
        f"{path}.head_dim": mixer.facts(d_model).head_dim
        for path, mixer in (find(part, Mixer) if d_model else ())
        if "head_dim" in mixer.fields and mixer.value_of("head_dim") is None
    }
    return {**kinds, **dict(settings(part)), **widths}


def runs_alike(ours: Model, theirs: Model) -> bool:
    """Whether a model is the architecture that another states: its operations, those of training too."""
    if theirs.max_seq_len not in (None, ours.max_seq_len) or ours.d_model != theirs.d_model:
        return False
    passes = [train_pass(model, seq_len=SOME_TOKENS).rows for model in (ours, theirs)]
    operations = [
        [
            (row.path, repr(row.op), row.inputs, row.outputs, row.times, row.experts, row.copies, row.trained)
            for row in rows
        ]
        for rows in passes
    ]
    return operations[0] == operations[1]
