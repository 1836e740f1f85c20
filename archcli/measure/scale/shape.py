"""Shape: a base model with another d_model and depth, all sizes that follow them rounded, and counted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

from archcli.measure.passes import shape_pass
from archcli.measure.scale.depth import Depths, GroupDepth, group_depths, moved_references
from archcli.measure.scale.fields import (
    NARROW,
    TILE,
    Role,
    ScaledSize,
    divisor_near,
    head_units,
    nearest,
    scaled_sizes,
    unit_of,
)
from archcli.modules import Model, substitute

D_FF, GRAIN = "d_ff", 10**6
"""The width that is stretched to meet a size, and into how many parts a stretch is cut."""
ABOUT: Mapping[str, Any] = {"released": None, "series": "", "sibling_of": "", "published": {}}
"""Fields of a published model, which a scaled one does not have."""


class Shape(NamedTuple):
    """A scaled model: its sizes by path, its parameters, and what its rounding costs.

    `d_model` and `ratio`, its layers over the base's, place it. `distortion` sums how far other sizes are
    from the base's ratio to d_model, as logarithms.
    """

    model: Model
    values: Mapping[str, int]
    d_model: int
    n_layers: int
    ratio: float
    params: int
    active_params: int
    distortion: float


class BaseShape:
    """The model that is scaled: its sizes with their roles, its layers, its parameters."""

    def __init__(self, model: Model, keep: Collection[str] = ()) -> None:
        self.model = model
        self.sizes = scaled_sizes(model, keep)
        self.keeps_width = any(size.path == "d_model" and size.role is Role.KEPT for size in self.sizes)
        self._shapes: dict[Any, Shape] = {}
        self.groups: list[GroupDepth] = group_depths(model)
        depths = {group.path for group in self.groups}
        self.keeps_depth = any(size.path in depths and size.role is Role.KEPT for size in self.sizes)

    @cached_property
    def counts(self) -> tuple[int, int]:
        """(parameters, active parameters)."""
        return counted(self.model)

    @property
    def n_layers(self) -> int:
        """Layers of all stacks."""
        return sum(group.n_layers for group in self.groups)

    def unit(self, ideal: float) -> int:
        """What a d_model near `ideal` is a multiple of: tiles, and heads whose width no field states."""
        width = self.model.d_model
        tile = TILE if ideal >= TILE * NARROW else min(width & -width, TILE)
        return lcm(tile, *set(head_units(self.model, self.sizes)))

    def shape(self, d_model: int, depths: Depths, stretch: float = 1.0) -> Shape:
        """The shape of this width and depth; `stretch` multiplies every d_ff. Each is counted once."""
        key = d_model, tuple(depths.items()), stretch
        if key not in self._shapes:
            self._shapes[key] = self._shape(d_model, depths, stretch)
        return self._shapes[key]

    def _shape(self, d_model: int, depths: Depths, stretch: float) -> Shape:
        values = {**depths, **self._widths(d_model, stretch)}
        values |= self._heads(d_model)
        values |= self._kv_heads(values)
        moved = dict(moved_references(self.model, depths))
        model = substitute(self.model, {**values, **moved})
        params, active = counted(model)
        layers = sum(depths.values())
        distortion = math.fsum(self._distortions(d_model, values))
        return Shape(model, values, d_model, layers, layers / self.n_layers, params, active, distortion)

    def _of(self, role: Role) -> Iterator[ScaledSize]:
        return (size for size in self.sizes if size.role is role)

    def _widths(self, d_model: int, stretch: float) -> dict[str, int]:
        base, widths = self.model.d_model, {}
        for size in self._of(Role.WIDTH):
            stretched = round(stretch * GRAIN) if size.name == D_FF else GRAIN
            ideal = size.value * d_model * stretched / (base * GRAIN)
            unit = size.unit or unit_of(size.value, ideal)
            widths[size.path] = nearest(size.value, d_model * stretched, base * GRAIN, unit)
        return {**widths, **({} if self.keeps_width else {"d_model": d_model})}

    def _heads(self, d_model: int) -> dict[str, int]:
        base = self.model.d_model
        return {size.path: nearest(size.value, d_model, base, size.unit) for size in self._of(Role.HEADS)}

    def _kv_heads(self, values: Mapping[str, int]) -> dict[str, int]:
        """Heads of keys and values: a divisor of those that share them, near the base's ratio."""
        stated = {size.path: size.value for size in self.sizes}
        shared: dict[str, int] = {}
        for size in self._of(Role.KV_HEADS):
            before = stated[size.shared_by]
            now = values.get(size.shared_by, before)
            shared[size.path] = divisor_near(now, now * size.value / before)
        return shared

    def _distortions(self, d_model: int, values: Mapping[str, int]) -> Iterator[float]:
        """How far each size but d_model is from the base's ratio to it, as a logarithm; each name once."""
        by_name: dict[tuple[str, int], float] = {}
        for size in self.sizes:
            if size.role in {Role.WIDTH, Role.HEADS, Role.KV_HEADS} and size.path != "d_model":
                exact = size.value * d_model / self.model.d_model
                key = size.name, size.value
                by_name[key] = max(by_name.get(key, 0.0), abs(math.log(values[size.path] / exact)))
        yield from by_name.values()


def counted(model: Model) -> tuple[int, int]:
    """(parameters, active parameters) of a model, as `archcli params` counts them."""
    rows = shape_pass(model).rows
    return sum(row.params for row in rows), sum(row.active_params for row in rows)


def unpublished(model: Model, name: str, source: str) -> Model:
    """The model under another name, without what is stated of a published one."""
    return model.replace(name=name, source=source, **ABOUT)
