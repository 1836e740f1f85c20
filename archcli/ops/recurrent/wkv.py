"""Ops of RWKV-4: each token beside the one before it, and WKV, a decaying weighted mean of values.

B batch, T new tokens, D d_model, W width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Shape, minimum, prod
from archcli.graph import Op, OpClass, Part, State, StateContent, StateKind, Workspace
from archcli.ops.base import movement
from archcli.ops.recurrent.chunks import CHUNK, Form, chunk_count, linear_scan, steps


@dataclass(frozen=True, slots=True, eq=False)
class TokenShift(Op):
    """y_t = x_(t-1); what came before the first token is zero.

    Inputs x [B, T, D], then the cached last token [B, D] if there is one. Outputs y [B, T, D], and with
    `keep` the last token of x.
    """

    sign: ClassVar[str] = "token shift"
    follows_run: ClassVar[bool] = True
    component: ClassVar[str] = "recurrence"
    name: str
    keep: bool

    def shape(self, x: Shape, *last: Shape) -> Any:
        return (x, (x[0], x[2])) if self.keep else (x,)

    def states(self, x: Shape, *last: Shape) -> tuple[State, ...]:
        kept = State(x[0] * x[2], StateKind.FIXED, content=StateContent.CONVOLUTION)
        return (kept,) if self.keep else ()

    def parts(self, x: Shape, *last: Shape) -> tuple[Part, ...]:
        n, kept = prod(x), x[0] * x[2]
        moved = (movement("keep", kept, kept, ()),) if self.keep else ()
        return (movement("shift", n, n), *moved)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *last: Any) -> Any:
        before = last[0].to(x.dtype).unsqueeze(1) if last else torch.zeros_like(x[:, :1])
        y = torch.cat([before, x[:, :-1]], 1)
        return (y, x[:, -1].clone()) if self.keep else (y,)


@dataclass(frozen=True, slots=True, eq=False)
class Interpolate(Op):
    """y = b + w (a - b) for each channel: a and b [B, T, D], weight [D]."""

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "mix"
    name: str

    def weights(self, a: Shape, b: Shape) -> dict[str, Shape]:
        return {"weight": a[-1:]}

    def initial(self, weight: str) -> float | None:
        return 0.5

    def parts(self, a: Shape, b: Shape) -> tuple[Part, ...]:
        n, width = prod(a), a[-1]
        backward = (
            Part("d_0", OpClass.ELEMENTWISE, n, n + width, n, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, n, n + width, n, wrt=1),
            Part("d_weight", OpClass.NORMALIZATION, 3 * n, 3 * n, width, wrt="weight"),
        )
        return (Part("interpolate", OpClass.ELEMENTWISE, 3 * n, 2 * n + width, n, backward),)

    def run(self, torch: Any, weights: dict[str, Any], a: Any, b: Any) -> Any:
        return torch.lerp(b, a, weights["weight"])


NOTHING = -1e38
"""The maximum of an empty sequence."""

STATES = 3
"""Numerator, denominator and maximum."""


@dataclass(frozen=True, slots=True, eq=False)
class WKV(Op):
    """y_t = (sum_(s<t) e^(k_s - (t-1-s) w) v_s + e^(k_t + u) v_t) / (the same sum without values).

    With w = e^decay and u = first, both [W]. Inputs k and v [B, T, W], then the cached numerator, denominator
    and maximum of the exponents [B, W] each, if there are any. Outputs y [B, T, W], and with `keep` the three
    new ones. Sums are kept over e^maximum, so that none overflows; the result does not depend on maxima,
    constants to the gradient. RWKV-4, arXiv:2305.13048 section 3.1.
    """

    drawn: ClassVar[str] = "core"
    sign: ClassVar[str] = "WKV"
    component: ClassVar[str] = "recurrence"
    name: str
    form: Form
    keep: bool

    def shape(self, k: Shape, v: Shape, *state: Shape) -> Any:
        return (v, *[(v[0], v[2])] * STATES) if self.keep else (v,)

    def weights(self, k: Shape, v: Shape, *state: Shape) -> dict[str, Shape]:
        return {"decay": v[2:], "first": v[2:]}

    def initial(self, weight: str) -> float | None:
        return None

    def states(self, k: Shape, v: Shape, *state: Shape) -> tuple[State, ...]:
        return tuple(State(prod(shape), StateKind.FIXED) for shape in self.shape(k, v)[1:])

    def parts(self, k: Shape, v: Shape, *state: Shape) -> tuple[Part, ...]:
        """Maxima cost nothing, and no gradient: the result does not depend on them.

        Of the output 11 FLOPs: two exponentials of differences (2 and 3), numerator 3, denominator 2,
        quotient. Of the state 10: two exponentials (3 and 2), numerator 3, denominator 2.
        """
        n, width = prod(v), v[2]
        stepwise = self.form == "recurrent"
        sums = STATES * (n if stepwise else v[0] * chunk_count(v[1], CHUNK) * width)
        read = sums if stepwise else STATES * v[0] * width * len(state[:1])
        to_first = Part("d_first", OpClass.NORMALIZATION, n, n, width, wrt="first")
        to_decay = Part("d_decay", OpClass.NORMALIZATION, 5 * n + width, 4 * n, width, wrt="decay")
        # quotient 2, each sum of the output 1, each of the state decays and is added 2 + 2
        to_sums = Part("d_state", OpClass.ELEMENTWISE, 8 * n, 3 * n + sums, sums, wrt=(0, 1))
        to_key = Part("d_0", OpClass.ELEMENTWISE, 7 * n, 4 * n, n, wrt=0)
        to_value = Part("d_1", OpClass.ELEMENTWISE, 3 * n, 2 * n, n, wrt=1)
        backward = (to_key, to_value, to_decay)
        return (
            Part("output", OpClass.ELEMENTWISE, 11 * n, 2 * n + width, n, (to_first,)),
            Part("terms", OpClass.ELEMENTWISE, 6 * n + width, width, 0, backward),
            Part("advance", OpClass.ELEMENTWISE, 4 * n, read, sums, (to_sums,), scans=True),
        )

    def workspace(self, width: int, k: Shape, v: Shape, *state: Shape) -> Workspace:
        """Bytes of a chunk's exponentials and sums."""
        wide = max(width, 4)
        chunk, whole = wide * v[0] * minimum(v[1], CHUNK) * v[2], wide * prod(v)
        return Workspace(3 * whole + 16 * chunk, 3 * whole + 20 * chunk)

    def run(self, torch: Any, weights: dict[str, Any], k: Any, v: Any, *state: Any) -> Any:
        wide = torch.promote_types(v.dtype, torch.float32)
        decay, first = -weights["decay"].to(wide).exp(), weights["first"].to(wide)
        chunk = 1 if steps(self.form, v.shape[1], started=bool(state)) else CHUNK
        state = state or _empty(v, wide)
        sums, top = torch.stack(state[:2], 1).to(wide), state[2].to(wide)
        out = []
        for key, value in zip(k.to(wide).split(chunk, 1), v.to(wide).split(chunk, 1), strict=True):
            # the result depends on no maximum, and so no gradient flows through them
            tops = _maxima(torch, torch.cat([top.unsqueeze(1), key.detach()], 1), decay.detach())
            earlier, top = tops[:, :-1], tops[:, -1]
            decays, weight = (earlier + decay - tops[:, 1:]).exp(), (key - tops[:, 1:]).exp()
            terms = torch.stack([weight * value, weight], 2)
            after, last = linear_scan(torch, decays.unsqueeze(2), terms, sums)
            numerator, denominator = torch.cat([sums.unsqueeze(1), after[:, :-1]], 1).unbind(2)
            sums, current = last, key + first
            here = torch.maximum(earlier, current.detach())
            past, now = (earlier - here).exp(), (current - here).exp()
            out.append((past * numerator + now * value) / (past * denominator + now))
        y = torch.cat(out, 1).to(v.dtype)
        return (y, sums[:, 0].clone(), sums[:, 1].clone(), top.clone()) if self.keep else (y,)


def _empty(v: Any, dtype: Any) -> tuple[Any, ...]:
    """Numerator, denominator and maximum before any token."""
    zeros = v.new_zeros((v.shape[0], v.shape[2]), dtype=dtype)
    return zeros, zeros, zeros + NOTHING


def _maxima(torch: Any, exponents: Any, decay: Any) -> Any:
    """max over s <= t of e_s + (t - s) decay of exponents e [B, T, W], by doubling spans."""
    step = 1
    while step < exponents.shape[1]:
        both = torch.maximum(exponents[:, step:], exponents[:, :-step] + step * decay)
        exponents = torch.cat([exponents[:, :step], both], 1)
        step *= 2
    return exponents
