"""Settings of an adapter_config.json by which adapters differ: ranks, layers, exclusions.

As peft reads them: `check_target_module_exists` of tuners/tuners_utils.py, `get_pattern_key` of other.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.weights.bounded import BoundedRegex
from archcli.load.huggingface.weights.patterns import below_wrappers

KEYS = ("rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern", "exclude_modules")
NUMBERED = r"[^.]*"
"""What stands before the number of a layer, where no pattern says it."""


class RankAndScale(NamedTuple):
    """The rank and the scale of the adapters of a module."""

    rank: int
    alpha: float


class Variants(NamedTuple):
    """The settings of a file by the names of modules.

    usual: of modules that no pattern names. stable: use_rslora, which divides alpha by sqrt(rank).
    ranks, alphas: by pattern, the first that fits decides.
    layers: numbers of the layers that are adapted, None for all. pattern: what stands before the number.
    excluded: modules that are left out.
    """

    usual: RankAndScale
    stable: bool = False
    ranks: tuple[tuple[BoundedRegex, int], ...] = ()
    alphas: tuple[tuple[BoundedRegex, float], ...] = ()
    layers: frozenset[int] | None = None
    pattern: tuple[BoundedRegex, ...] = ()
    excluded: str | tuple[str, ...] = ()

    @property
    def usual_setting(self) -> RankAndScale:
        """The setting of modules that no pattern names."""
        return self._stabilized(*self.usual)

    @property
    def are_any(self) -> bool:
        """Whether any module may be adapted otherwise than another."""
        return bool(self.ranks or self.alphas or self.layers is not None or self.excluded)

    def setting_of(self, names: Sequence[str]) -> RankAndScale | None:
        """The rank and scale of a target with these names; None where it is excluded."""
        if is_meant(names, self.excluded) or not self._is_in_layers(names):
            return None
        return self.size_of(names)

    def size_of(self, names: Sequence[str], times: int = 1) -> RankAndScale:
        """The rank and scale of a target with these names; by default `times` the usual ones."""
        rank = _first(self.ranks, names, self.usual.rank * times)
        alpha = _first(self.alphas, names, self.usual.alpha * times)
        return self._stabilized(rank, alpha)

    def _stabilized(self, rank: int, alpha: float) -> RankAndScale:
        # rank-stabilized LoRA divides by the root of the rank, arXiv:2312.03732
        return RankAndScale(rank, alpha * math.sqrt(rank) if self.stable else alpha)

    def _is_in_layers(self, names: Sequence[str]) -> bool:
        if self.layers is None:
            return True
        numbers = (_layer(name, pattern) for name in names for pattern in self.pattern)
        return next((number for number in numbers if number is not None), -1) in self.layers


def _first(patterns: Iterable[tuple[BoundedRegex, Any]], names: Sequence[str], usual: Any) -> Any:
    fits = (value for pattern, value in patterns for name in names if pattern.match(name, whole=True))
    return next(fits, usual)


def _layer(name: str, pattern: BoundedRegex) -> int | None:
    """The number behind the first step that the pattern fits: 3 of model.layers.3.mlp."""
    steps = name.split(".")
    pairs = pairwise(steps[1:-1])
    numbers = (int(n) for step, n in pairs if n.isdecimal() and pattern.match(step, whole=True))
    return next(numbers, None)


def is_meant(names: Iterable[str], targets: str | Sequence[str]) -> bool:
    """peft's rule: a list names the last steps of a module's name, a pattern all of it."""
    if isinstance(targets, str):
        expression = BoundedRegex(targets)
        return any(expression.match(called, whole=True) for name in names for called in below_wrappers(name))
    return any(name == target or name.endswith(f".{target}") for name in names for target in targets)


def read_variants(config: Config, usual: RankAndScale, *, stable: bool) -> Variants:
    """The settings of a file. ArchError for one that is no pattern, number or list."""
    layers = config.get("layers_to_transform", default=None)
    numbers = None if layers is None or layers == [] else layers if isinstance(layers, list) else [layers]
    if numbers is not None and not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise _error(config, "layers_to_transform", "the numbers of layers, such as [0, 1]")
    before = config.get("layers_pattern", default=None) or NUMBERED
    excluded = config.get("exclude_modules", default=None) or ()
    if not isinstance(excluded, str) and not all(isinstance(name, str) for name in excluded):
        raise _error(config, "exclude_modules", "names, such as [lm_head], or a pattern")
    return Variants(
        usual,
        stable,
        tuple(_by_pattern(config, "rank_pattern")),
        tuple(_by_pattern(config, "alpha_pattern")),
        None if numbers is None else frozenset(numbers),
        tuple(_expressions(config, "layers_pattern", [before] if isinstance(before, str) else before)),
        excluded if isinstance(excluded, str) else tuple(excluded),
    )


def _by_pattern(config: Config, key: str) -> Iterator[tuple[BoundedRegex, Any]]:
    values = config.get(key, default=None) or {}
    if not isinstance(values, Mapping) or not all(_is_size(value, key) for value in values.values()):
        raise _error(config, key, "ranks by name, such as {q_proj: 8}")
    expressions = _expressions(config, key, [rf"(.*\.)?({name})" for name in values])
    return zip(expressions, values.values(), strict=True)


def _is_size(value: object, key: str) -> bool:
    number = isinstance(value, int) or (isinstance(value, float) and key == "alpha_pattern")
    return number and not isinstance(value, bool) and 0 < float(value) < math.inf  # type: ignore[arg-type]


def _expressions(config: Config, key: str, patterns: Iterable[Any]) -> list[BoundedRegex]:
    try:
        return [BoundedRegex(re.sub(r"^\^", "", str(pattern))) for pattern in patterns]
    except ValueError:
        raise _error(config, key, "a pattern that is understood, such as q_proj") from None


def _error(config: Config, key: str, hint: str) -> Exception:
    return config.error(f"{key} {short_repr(config.data[key])} is not understood", hint, config.place(key))
