"""Alterations of particular fields, which depend on what else the spec says: see `mutations`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli import modules as m
from archcli.modules.spec.base import Spec
from parity.alterations import altered, both, filled, plus, times, to


def each_bias(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Without the bias of one projection.

    A bias of keys that are not rotated shifts all scores of a query alike and is felt by nobody.
    """
    biased = tuple("qkvo") if spec.bias is True else spec.bias or ()
    for which in biased:
        if which != "k" or isinstance(spec.position, m.Rope):
            yield f"no {which} bias", altered(spec, bias=tuple(other for other in biased if other != which))


def heads(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Half as many, twice as wide: the same weights read otherwise."""
    if spec.head_dim is None and spec.qk_norm is None:
        yield "n_heads/2", altered(spec, n_heads=spec.n_heads // 2)


def norm_place(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Queries and keys normalized on the rotation's other side, which a norm without weights ignores."""
    norm = spec.qk_norm
    if norm is not None and norm.norm.weight and isinstance(spec.position, m.Rope):
        for _, changed in to("before_rope", "after_rope")(norm, "when"):
            yield "qk_norm on the other side", altered(spec, qk_norm=changed)


def offset(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The weight stored minus one, or not; without a weight there is nothing to store."""
    return to(0, 1)(spec, field) if spec.weight else iter(())


def turned(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """Fewer turned dims; LongRoPE lists a divisor for each pair, so there the number is structure."""
    return both(plus(-2), filled(4))(spec, field) if spec.scaling.kind != "longrope" else iter(())


def other_end(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The other dims turned, where the position says that not all are."""
    if spec.rotary_dim is not None or spec.rotates == "last":
        yield from to("first", "last")(spec, field)


def reverse(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The layers of a pattern in the opposite order, if their weights are of the same shapes."""
    facts = [block.facts() for block in spec.pattern]
    widths = {(mixer.head_dim, mixer.n_kv_heads, mixer.kv_from is None) for mixer in facts}
    if spec.pattern and len(widths) == 1:
        yield "pattern reversed", altered(spec, pattern=spec.pattern[::-1])


def place(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """No position where there is one, a sinusoid where there is none."""
    return to(m.NoPosition() if spec.position.kind != "none" else m.Sinusoidal())(spec, field)


def of_low_rank(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """A gain of the queries' latent, where the queries have one."""
    return times(1.1)(spec, field) if spec.q_lora_rank is not None else iter(())
