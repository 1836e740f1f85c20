"""Sizes of a model by what scaling does with them: widths and heads follow d_model, the rest is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import NamedTuple

from archcli.measure.symbolic.sizes import sizes
from archcli.modules import Model
from archcli.modules.base import Spec

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
APART = ("embedding", "head", "per_layer_embedding", "lora", "quantization", "index", "relative", "unread")
"""Parts whose sizes do not follow d_model: narrow tables, adapters, indexers."""


class ScaledSize(NamedTuple):
    """A size of the base: its full path, role and value.

    `unit` is what its new value is a multiple of, `shared_by` of KV heads the path of the heads that share.
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
        ScaledSize(path, Role.KEPT, value)
        if path in keep or path.rsplit(".", 1)[-1] in keep
        else _of_role(path, spec, value)
        for path, spec, value in sizes(model)
        if value is not None
    ]


def _of_role(path: str, spec: Spec, value: int) -> ScaledSize:
    *above, name = path.split(".")
    if name == "n_layers":
        return ScaledSize(path, Role.DEPTH, value)
    if set(above) & set(APART):
        return ScaledSize(path, Role.KEPT, value)
    if name in KV_HEADS and value > 1:
        return ScaledSize(path, Role.KV_HEADS, value, 1, ".".join([*above, KV_HEADS[name]]))
    if name in HEADS and not hasattr(spec, "d_inner"):  # heads of Zamba's Mamba cut its channels in two
        return ScaledSize(path, Role.HEADS, value, _grouped(spec))
    if name in WIDTHS or (name == "width" and above):
        return ScaledSize(path, Role.WIDTH, value, _block(spec, value))
    return ScaledSize(path, Role.KEPT, value)


def _grouped(spec: Spec) -> int:
    """What a number of heads is a multiple of: the groups that share B and C, and those of the norm."""
    norm = getattr(spec, "norm", None)
    return max(getattr(spec, "n_groups", 1), getattr(norm, "groups", 1) or 1)


def _block(spec: Spec, value: int) -> int:
    """The width of a block of a gate with blocks, which is kept; 0 elsewhere."""
    blocks = getattr(spec, "n_blocks", None)
    return value // blocks if blocks else 0


def nearest(value: int, numerator: int, denominator: int, unit: int) -> int:
    """value * numerator / denominator to the nearest multiple of the unit, at least one; half goes up."""
    return max(unit, (2 * value * numerator + denominator * unit) // (2 * denominator * unit) * unit)


def unit_of(base: int, ideal: float) -> int:
    """What a width near `ideal` is to be a multiple of, where the base's is `base`.

    TILE, or COARSE where the base's is and rounding stays small; a narrow one (a rank) what its base is.
    """
    two = base & -base
    least = TILE if ideal >= TILE * NARROW else min(two, TILE)
    unit = COARSE if two >= COARSE else least
    while unit > least and ideal < unit * FINE_STEPS:
        unit //= 2
    return unit


def divisor_near(total: int, ideal: float) -> int:
    """The divisor of `total` nearest to `ideal` as a ratio; of two the larger."""
    divisors = [n for n in range(1, total + 1) if total % n == 0]
    return min(divisors, key=lambda n: (max(n / ideal, ideal / n), -n))


def head_units(model: Model, roles: list[ScaledSize]) -> Iterator[int]:
    """Widths of heads that no field states: d_model is a multiple of them, as they are kept."""
    heads = {size.path.rsplit(".", 1)[0] for size in roles if size.name == "n_heads"}
    for path, spec, _ in sizes(model):
        above, _, name = path.rpartition(".")
        if name == "n_heads" and above in heads and getattr(spec, "head_dim", 0) is None:
            yield model.d_model // spec.n_heads  # type: ignore[attr-defined]
