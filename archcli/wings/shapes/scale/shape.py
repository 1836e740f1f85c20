"""Shape: a base model with another d_model and depth, all sizes that follow them rounded, and counted."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

from archcli.measure.passes import shape_pass
from archcli.modules import Model, substitute
from archcli.wings.shapes.scale.fields import (
    NARROW,
    TILE,
    Depths,
    GroupDepth,
    Role,
    ScaledSize,
    divisor_near,
    group_depths,
    kept_heads,
    moved_references,
    nearest,
    scaled_sizes,
    shared_unit,
    tied_heads,
    tied_width,
    unit_of,
)

D_FF, GRAIN = "d_ff", 10**6
"""The name of the width that is stretched to meet a size; a stretch is a whole number of GRAIN-ths."""
ABOUT: Mapping[str, Any] = {
    "released": None,
    "series": "",
    "sibling_of": "",
    "published": {},
    "published_in": None,
}
"""Fields of a published model, which a scaled one does not have."""


class Shape(NamedTuple):
    """A scaled model.

    values: its sizes by path. params, active_params: its parameters.
    ratio: its layers over the base's.
    distortion: the sum of |log| of each size over the size by the base's ratio to d_model.
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
        self._tied = {size.path: width for size, width in tied_heads(model, self.sizes)}
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

    def unit(self, ideal: float, *, shared: bool = True) -> int:
        """The multiple that a d_model near `ideal` is rounded to: of tiles, and of heads.

        Heads count if no field states their width: theirs is d_model / n_heads. With `shared` their number
        is one that devices can share.
        """
        width = self.model.d_model
        tile = TILE if ideal >= TILE * NARROW else min(width & -width, TILE)
        tied = (self._tied_unit(size, ideal, shared) for size in self.sizes if size.path in self._tied)
        return lcm(tile, *tied, *kept_heads(self.model, self.sizes))

    def _tied_unit(self, size: ScaledSize, ideal: float, shared: bool) -> int:
        """The multiple that these heads round a d_model near `ideal` to."""
        whole = self._tied[size.path] * size.unit
        near = max(round(ideal / whole), 1) * whole
        return self.head_width(size, near) * (self._heads_unit(size, near) if shared else size.unit)

    def head_width(self, size: ScaledSize, d_model: int) -> int:
        """The width of these heads in a model so wide, where no field states it."""
        return tied_width(self._tied[size.path], size, d_model)

    def exact(self, size: ScaledSize, d_model: int) -> float:
        """The unrounded value by the base's ratio to d_model; heads of half the width are twice as many."""
        ratio = d_model / self.model.d_model
        heads = size.shared_by or size.path
        if heads in self._tied:
            ratio *= self._tied[heads] / self.head_width(self._size(heads), d_model)
        return size.value * ratio

    def _heads_unit(self, size: ScaledSize, d_model: int) -> int:
        """The multiple that a number of heads is rounded to in a model about so wide."""
        return lcm(size.unit, shared_unit(size.value, self.exact(size, d_model)))

    def shape(self, d_model: int, depths: Depths, stretch: float = 1.0) -> Shape:
        """The shape of this width and depth; `stretch` multiplies every d_ff. Each is counted once."""
        key = d_model, tuple(depths.items()), stretch
        if key not in self._shapes:
            self._shapes[key] = self._shape(d_model, depths, stretch)
        return self._shapes[key]

    def _shape(self, d_model: int, depths: Depths, stretch: float) -> Shape:
        values = {**depths, **self._widths(d_model, stretch)}
        values |= {**self._heads(d_model), **self._rotated(d_model)}
        values |= self._kv_heads(values)
        moved = dict(moved_references(self.model, depths))
        model = substitute(self.model, {**values, **moved})
        params, active = counted(model)
        layers = sum(depths.values())
        # fsum, whose result does not depend on the order of the sizes
        distortion = math.fsum(self._distortions(d_model, values))
        return Shape(model, values, d_model, layers, layers / self.n_layers, params, active, distortion)

    def _size(self, path: str) -> ScaledSize:
        return next(size for size in self.sizes if size.path == path)

    def _of(self, role: Role) -> Iterator[ScaledSize]:
        return (size for size in self.sizes if size.role is role)

    def _widths(self, d_model: int, stretch: float) -> dict[str, int]:
        base, widths = self.model.d_model, {}
        for size in self._of(Role.WIDTH):
            # a whole number of GRAIN-ths, as `nearest` computes with ints
            stretched = round(stretch * GRAIN) if size.name == D_FF else GRAIN
            ideal = size.value * d_model * stretched / (base * GRAIN)
            unit = size.unit or unit_of(size.value, ideal)
            widths[size.path] = nearest(size.value, d_model * stretched, base * GRAIN, unit)
        return {**widths, **({} if self.keeps_width else {"d_model": d_model})}

    def _heads(self, d_model: int) -> dict[str, int]:
        base = self.model.d_model
        return {
            size.path: d_model // self.head_width(size, d_model)
            if size.path in self._tied
            else nearest(size.value, d_model, base, self._heads_unit(size, d_model))
            for size in self._of(Role.HEADS)
        }

    def _rotated(self, d_model: int) -> dict[str, int]:
        """Rotated dims of heads that are narrower than the base's: as large a share of a head."""
        rotated = {}
        for size in self.sizes:
            heads = f"{size.path.partition('.position.')[0]}.n_heads"
            if size.name == "rotary_dim" and heads in self._tied:
                before = self._tied[heads]
                rotated[size.path] = size.value * self.head_width(self._size(heads), d_model) // before
        # RoPE turns pairs: where it would be an odd number, the base's stays
        return {path: n for path, n in rotated.items() if n % 2 == 0}

    def _kv_heads(self, values: Mapping[str, int]) -> dict[str, int]:
        """Heads of keys and values: a divisor of those that share them, near the base's ratio."""
        base = {size.path: size.value for size in self.sizes}
        shared: dict[str, int] = {}
        for size in self._of(Role.KV_HEADS):
            before = base[size.shared_by]
            now = values.get(size.shared_by, before)
            shared[size.path] = divisor_near(now, now * size.value / before, size.value, size.unit)
        return shared

    def _distortions(self, d_model: int, values: Mapping[str, int]) -> Iterator[float]:
        """How far each size but d_model is from the base's ratio to it, as a logarithm; each name once."""
        by_name: dict[tuple[str, int], float] = {}
        for size in self.sizes:
            if size.role in {Role.WIDTH, Role.HEADS, Role.KV_HEADS} and size.path != "d_model":
                key, exact = (size.name, size.value), self.exact(size, d_model)
                by_name[key] = max(by_name.get(key, 0.0), abs(math.log(values[size.path] / exact)))
        yield from by_name.values()


def counted(model: Model) -> tuple[int, int]:
    """(parameters, active parameters) of a model, as `archcli params` counts them."""
    rows = shape_pass(model).rows
    return sum(row.params for row in rows), sum(row.active_params for row in rows)


def unpublished(model: Model, name: str, source: str) -> Model:
    """The model under another name, without what is stated of a published one."""
    return model.replace(name=name, source=source, **ABOUT)
