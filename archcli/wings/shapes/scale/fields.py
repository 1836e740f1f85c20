"""Sizes of a model by what scaling does with them: depth, widths and heads follow, others are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from math import lcm
from operator import mul
from typing import NamedTuple

from archcli.modules import Model
from archcli.modules.attention.mixer import READS_LAYER, derives_head_width, head_parts, heads_unit
from archcli.modules.models.stack import Group, stacks
from archcli.modules.spec.base import Spec, find, settings
from archcli.wings.shapes.symbolic.symbols import sizes

STEPS, REACH = 200, 4.0
"""Ratios of depth to try: so many to either side, geometrically from 1/REACH to REACH times the asked one."""


class GroupDepth(NamedTuple):
    """A group: the path of its number of layers, that number, and the length of its pattern."""

    path: str
    n_layers: int
    period: int

    def scaled(self, ratio: float) -> int:
        """About `ratio` times the layers: whole periods more or less, so that it ends as it ended."""
        # not one whole period, and so none to add or to drop
        if self.n_layers < self.period:
            return self.n_layers
        rest = self.n_layers % self.period
        periods = max(round((self.n_layers * ratio - rest) / self.period), 1)
        return rest + periods * self.period


Depths = Mapping[str, int]
"""Numbers of layers by path."""


def group_depths(model: Model) -> list[GroupDepth]:
    """All groups of all stacks."""
    return [
        GroupDepth(f"{path}.n_layers", group.n_layers, max(len(group.pattern), 1))
        for path, group in find(model, Group)
    ]


def depths_near(groups: list[GroupDepth], ratio: float, most: int, kept: bool = False) -> list[Depths]:
    """The `most` distinct depths nearest to `ratio` times the base's, the nearest first."""
    if kept:
        return [{group.path: group.n_layers for group in groups}]
    total = sum(group.n_layers for group in groups)
    alike = Counter(group._replace(path="") for group in groups)  # groups of a size are scaled alike
    spread: dict[tuple[int, ...], tuple[int, float, float]] = {}
    for step in sorted(range(-STEPS, STEPS + 1), key=abs):
        tried = ratio * REACH ** (step / STEPS)
        numbers = [group.scaled(tried) for group in alike]
        reached = sum(map(mul, numbers, alike.values())) / total
        # several ratios round to the same depths: the first is the nearest, as steps go outwards
        spread.setdefault(tuple(numbers), (abs(step), abs(reached / ratio - 1), tried))
    nearest = sorted(spread.values(), key=lambda entry: entry[:2])[:most]
    return [{group.path: group.scaled(tried) for group in groups} for *_, tried in nearest]


def moved_references(model: Model, depths: Depths) -> Iterator[tuple[str, int]]:
    """(path, new layer) of each field that names an earlier layer whose keys and values it reads.

    A layer of the reader's own group is as far from the group's start as before, one of an earlier group as
    far from its end; where that group has become too short, the nearest at the same place of its pattern.
    """
    for stem, stack in stacks(model):
        spans = list(_spans(stem, stack.groups, depths))
        for path, value in settings(stack):
            if path.rsplit(".", 1)[-1] in READS_LAYER and value is not None:
                lender = next(i for i, (old, _) in enumerate(spans) if value in old)
                old, new = spans[lender]
                is_own = path.startswith(f"groups.{lender}.")
                moved = value + (new.start - old.start if is_own else new.stop - old.stop)
                period = len(stack.groups[lender].blocks)
                alike = new[(value - old.start) % period :: period]
                yield f"{stem}{path}", min(max(moved, alike[0]), alike[-1])


def _spans(stem: str, groups: tuple[Group, ...], depths: Depths) -> Iterator[tuple[range, range]]:
    """The layers of each group, before and after."""
    old = new = 0
    for i, group in enumerate(groups):
        now = depths[f"{stem}groups.{i}.n_layers"]
        yield range(old, old + group.n_layers), range(new, new + now)
        old, new = old + group.n_layers, new + now


TILE, COARSE = 64, 256
"""Widths are multiples of the first (see the rules of hardware), wide ones of the second."""
FINE_STEPS = 32
"""A width has at least so many steps of its unit, so that rounding moves it by 1.6% at most."""
NARROW = 8
"""Widths below so many tiles need not be multiples of one."""


class Role(StrEnum):
    """What scaling does with a size."""

    WIDTH = "width"
    HEADS = "heads"
    KV_HEADS = "kv heads"
    DEPTH = "depth"
    KEPT = "kept"


WIDTHS = ("d_model", "d_ff", "d_inner", "dt_rank", "latent", "router_width", "q_lora_rank", "kv_lora_rank")
HEADS = ("n_heads", "n_value_heads", "n_blocks")
KV_HEADS = {"n_kv_heads": "n_heads", "n_key_heads": "n_value_heads"}
"""Heads that others share, with the field of those others."""
DEVICES = 8
"""Devices of a node: numbers of heads become multiples of 8, 4 or 2 where that changes them little."""
SHARED_STEPS = 8
"""A number of heads is at least so many times the unit that it is a multiple of."""
FEWEST, NARROWEST = 12, 64
"""With fewer heads than this a width that no field states is halved, but not below the second: OPT and Pythia
of 125M and 160M and Qwen2.5-0.5B have 12 and 14 heads of 64, their large siblings heads of 128.
"""
APART = ("embedding", "head", "per_layer_embedding", "lora", "quantization", "index", "relative", "unread")
"""Parts whose sizes do not follow d_model: narrow tables, adapters, indexers."""


class ScaledSize(NamedTuple):
    """A size of the base: its full path, role and value.

    `unit`: its new value is a multiple of this. `shared_by`: for KV heads, the path of the query heads.
    """

    path: str
    role: Role
    value: int
    unit: int = 1
    shared_by: str = ""

    @property
    def name(self) -> str:
        """The last step of the path."""
        return self.path.rsplit(".", 1)[-1]


def scaled_sizes(model: Model, keep: Collection[str] = ()) -> list[ScaledSize]:
    """All stated sizes with their roles; those whose name or path `keep` lists are kept."""
    return [
        ScaledSize(path, Role.KEPT, value) if _is_kept(path, keep) else _of_role(path, spec, value, keep)
        for path, spec, value in sizes(model)
        if value is not None
    ]


def _is_kept(path: str, keep: Collection[str]) -> bool:
    return path in keep or path.rsplit(".", 1)[-1] in keep


def _of_role(path: str, spec: Spec, value: int, keep: Collection[str]) -> ScaledSize:
    *above, name = path.split(".")
    if name == "n_layers":
        return ScaledSize(path, Role.DEPTH, value)
    if set(above) & set(APART):
        return ScaledSize(path, Role.KEPT, value)
    # one KV head is multi-query attention, and stays one
    if name in KV_HEADS and value > 1:
        shared = ".".join([*above, KV_HEADS[name]])
        return ScaledSize(path, Role.KV_HEADS, value, head_parts(spec), shared)
    if name in HEADS and not hasattr(spec, "d_inner"):  # heads of Zamba's Mamba cut its channels in two
        return ScaledSize(path, Role.HEADS, value, _head_unit(path, spec, value, keep))
    if name in WIDTHS or (name == "width" and above):
        return ScaledSize(path, Role.WIDTH, value, _block(spec, value))
    return ScaledSize(path, Role.KEPT, value)


def _head_unit(path: str, spec: Spec, value: int, keep: Collection[str]) -> int:
    """The multiple of a number of heads: groups of heads or of the norm, and KV heads that are kept."""
    stem, _, name = path.rpartition(".")
    sharing = [kv for kv, heads in KV_HEADS.items() if heads == name and _is_kept(f"{stem}.{kv}", keep)]
    kept = [n for kv in sharing if (n := spec.value_of(kv)) and value % n == 0]
    return lcm(heads_unit(spec), *kept)


def _block(spec: Spec, value: int) -> int:
    """The width of a block of a gate with blocks, which is kept; 0 elsewhere."""
    blocks = spec.value_of("n_blocks")  # of RG-LRU alone
    return value // blocks if blocks else 0


def nearest(value: int, numerator: int, denominator: int, unit: int) -> int:
    """value * numerator / denominator to the nearest multiple of the unit, at least one; half goes up."""
    # ints alone: as floats, halves of large widths might round either way
    return max(unit, (2 * value * numerator + denominator * unit) // (2 * denominator * unit) * unit)


def unit_of(base: int, ideal: float) -> int:
    """The multiple that a width near `ideal` is rounded to, where the base's width is `base`.

    TILE, or COARSE if the base is a multiple of it and rounding stays small; for a narrow width, such as a
    rank, the largest power of two that divides the base.
    """
    # the largest power of two that divides the base
    two = base & -base
    least = TILE if ideal >= TILE * NARROW else min(two, TILE)
    unit = COARSE if two >= COARSE else least
    while unit > least and ideal < unit * FINE_STEPS:
        unit //= 2
    return unit


def shared_unit(base: int, ideal: float) -> int:
    """The power of two that heads near `ideal` are rounded to, so that devices can share them."""
    # as many devices of a node as could share the base's heads
    unit = min(base & -base, DEVICES)
    while unit > 1 and ideal < unit * SHARED_STEPS:
        unit //= 2
    return unit


def shareable(n: int) -> bool:
    """Whether so many KV heads divide evenly among half a node, or half a node among the KV heads."""
    half = DEVICES // 2
    return n > 0 and (n % half == 0 or half % n == 0)


def divisor_near(total: int, ideal: float, base: int = 0, unit: int = 1) -> int:
    """The divisor of `total` nearest to `ideal` as a ratio, a multiple of `unit`; of two the larger.

    If devices can share the `base`'s heads, they can share these.
    """
    divisors = [n for n in range(unit, total + 1, unit) if total % n == 0]
    divisors = [n for n in divisors if not shareable(base) or shareable(n)] or divisors
    return min(divisors, key=lambda n: (max(n / ideal, ideal / n), -n))


def tied_width(base_width: int, heads: ScaledSize, d_model: int) -> int:
    """The width of heads that no field states: the base's, or half of it.

    Half where too few heads were left, or a number that KV heads or groups do not divide.
    """
    width, few = base_width, min(FEWEST, heads.value)
    while width % 2 == 0 and width // 2 >= NARROWEST:
        if d_model >= few * width and d_model % (width * heads.unit) == 0:
            break
        width //= 2
    return width


def tied_heads(model: Model, roles: list[ScaledSize]) -> Iterator[tuple[ScaledSize, int]]:
    """(heads, width) of the heads whose width no field states: it is d_model over their number."""
    heads = {size.path: size for size in roles if size.name == "n_heads" and size.role is Role.HEADS}
    for path, spec, _ in sizes(model):
        if path in heads and derives_head_width(spec):
            yield heads[path], model.d_model // heads[path].value


def kept_heads(model: Model, roles: list[ScaledSize]) -> Iterator[int]:
    """Numbers that d_model must be a multiple of, for heads of a kept number and no stated width.

    Heads of an even width, as RoPE needs, stay so.
    """
    kept = {size.path: size.value for size in roles if size.name == "n_heads" and size.role is Role.KEPT}
    for path, spec, _ in sizes(model):
        if path in kept and derives_head_width(spec):
            yield kept[path] * (1 if model.d_model // kept[path] % 2 else 2)
