"""Ops of hashed n-grams: their rows, gates of streams by likeness, a convolution with gaps.

Qwen4-Exp. B batch, T new tokens, N tokens of the longest n-gram, h hash functions of a length, n streams, D
width, C channels, K taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod
from archcli.graph import Op, OpClass, Part, State, StateContent, StateKind
from archcli.ops.base import WHOLE_NUMBERS, contraction, movement


@dataclass(frozen=True, slots=True, eq=False)
class HashNGrams(Op):
    """The rows of the n-grams that end with each token, for n from 2 to N; h hash functions for each n.

    Inputs ids [B, T], then the ids of the N - 1 tokens before if a cache is continued. Output rows [B, T, (N
    - 1) h], and with `keep` the newest N - 1 ids. A hash is (x_t m_0 xor x_(t-1) m_1 xor …) modulo the size
    of its table, and its rows lie behind those of the tables before: `multipliers` are m_0 to m_(N-1),
    `tables` the sizes, h of bigrams, then h of trigrams, …. No n-gram reaches back beyond a token `boundary`,
    which stands in place of all before it, and before the first token.
    """

    drawn: ClassVar[str] = "aside"
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS
    name: str
    multipliers: tuple[int, ...]
    tables: tuple[Number, ...]
    boundary: int
    keep: bool

    @property
    def reach(self) -> int:
        """N - 1, the earlier tokens that the longest n-gram reads."""
        return len(self.multipliers) - 1

    def shape(self, ids: Shape, *before: Shape) -> Any:
        rows = (*ids, len(self.tables))
        return (rows, (ids[0], self.reach)) if self.keep else (rows,)

    def trained(self, grads: list[bool], *xs: Shape) -> bool:
        return False

    def states(self, ids: Shape, *before: Shape) -> tuple[State, ...]:
        kept = State(ids[0] * self.reach, StateKind.FIXED, content=StateContent.IDS)
        return (kept,) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], ids: Any, *before: Any) -> Any:
        start = before[0] if before else ids.new_full((ids.shape[0], self.reach), self.boundary)
        history, tokens = torch.cat([start, ids], dim=1), ids.shape[1]
        per_reach, rows, first = len(self.tables) // self.reach, [], 0
        token, mixed = ids, ids * self.multipliers[0]
        for back in range(1, self.reach + 1):
            earlier = history[:, self.reach - back : self.reach - back + tokens]
            # a boundary hides what lies before it, and none comes between a token and the one before
            token = earlier if back == 1 else torch.where(token == self.boundary, token, earlier)
            mixed = torch.bitwise_xor(mixed, token * self.multipliers[back])
            for size in self.tables[(back - 1) * per_reach : back * per_reach]:
                rows.append(mixed % size + first)
                first += size
        stacked = torch.stack(rows, dim=-1)
        return (stacked, history[:, tokens:].clone()) if self.keep else (stacked,)


OF_GATE = 4
"""A scaling, a root, the sign and a sigmoid: what is done once a gate, forward and backward."""


@dataclass(frozen=True, slots=True, eq=False)
class SimilarityGates(Op):
    """sigmoid(sign(z) sqrt(max(|z|, least))) with z = k q / sqrt(D) for each stream: [B, T, n].

    Inputs keys k and queries q [B, T, n, D]. The gradients of k and q are a product each.
    """

    sign: ClassVar[str] = "gates"
    name: str
    least: float = 1e-6

    def shape(self, k: Shape, q: Shape) -> Shape:
        return k[:-1]

    def parts(self, k: Shape, q: Shape) -> tuple[Part, ...]:
        n, gates = prod(k), prod(k[:-1])
        gradients = (
            Part("d_gates", OpClass.ELEMENTWISE, OF_GATE * gates, gates, gates, wrt=(0, 1)),
            *(Part(f"d_{i}", OpClass.ELEMENTWISE, n, n + gates, n, wrt=i) for i in range(2)),
        )
        return (
            Part("products", OpClass.ELEMENTWISE, 2 * n - gates, 2 * n, gates, gradients),
            Part("gates", OpClass.ELEMENTWISE, OF_GATE * gates, gates, gates),
        )

    def run(self, torch: Any, weights: dict[str, Any], k: Any, q: Any) -> Any:
        alike = (k * q).sum(-1) * k.shape[-1] ** -0.5
        return torch.sigmoid(alike.abs().clamp(min=self.least).sqrt() * alike.sign())


@dataclass(frozen=True, slots=True, eq=False)
class ShareOut(Op):
    """y [B, T, D] times the gate of each stream c [B, T, n]: [B, T, n, D]."""

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "streams"
    name: str

    def shape(self, y: Shape, c: Shape) -> Shape:
        return (*c, y[-1])

    def parts(self, y: Shape, c: Shape) -> tuple[Part, ...]:
        n, stream, shares = prod(self.shape(y, c)), prod(y), prod(c)
        gradients = (
            Part("d_0", OpClass.ELEMENTWISE, 2 * n - stream, n + shares, stream, wrt=0),
            Part("d_1", OpClass.ELEMENTWISE, 2 * n - shares, n + stream, shares, wrt=1),
        )
        return (Part("share", OpClass.ELEMENTWISE, n, stream + shares, n, gradients),)

    def run(self, torch: Any, weights: dict[str, Any], y: Any, c: Any) -> Any:
        return y.unsqueeze(-2) * c.unsqueeze(-1)


@dataclass(frozen=True, slots=True, eq=False)
class DilatedConv1d(Op):
    """y_t = sum_i w_i x_(t - (K-1-i) dilation), for each channel by itself (depthwise).

    Inputs x [B, T, C], then the cached (K - 1) dilation newest inputs if there are any; what came before is
    zero. Outputs y [B, T, C], and with `keep` the new window. Weight [C, 1, K], which starts at 0: at first
    the convolution adds nothing.
    """

    drawn: ClassVar[str] = "unary"
    sign: ClassVar[str] = "convolution"
    component: ClassVar[str] = "short_conv"
    convolves: ClassVar[bool] = True
    follows_run: ClassVar[bool] = True
    name: str
    kernel: Number
    dilation: Number
    keep: bool

    @property
    def reach(self) -> Number:
        """Earlier inputs that a token reads, or skips."""
        return (self.kernel - 1) * self.dilation

    def shape(self, x: Shape, *window: Shape) -> Any:
        return (x, (x[0], self.reach, x[2])) if self.keep else (x,)

    def weights(self, x: Shape, *window: Shape) -> dict[str, Shape]:
        return {"weight": (x[2], 1, self.kernel)}

    def initial(self, weight: str) -> float | None:
        return 0.0

    def parts(self, x: Shape, *window: Shape) -> tuple[Part, ...]:
        n, kept = prod(x), x[0] * self.reach * x[2]
        taps = x[2] * self.kernel
        product = contraction("conv", 2 * n * self.kernel, [(n, 0), (taps, "weight")], n)
        return (product, *((movement("window", kept, kept, ()),) if self.keep else ()))

    def states(self, x: Shape, *window: Shape) -> tuple[State, ...]:
        kept = State(x[0] * self.reach * x[2], StateKind.FIXED, content=StateContent.CONVOLUTION)
        return (kept,) if self.keep else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, *window: Any) -> Any:
        before = window[0] if window else x.new_zeros(x.shape[0], self.reach, x.shape[2])
        joined = torch.cat([before, x], dim=1)
        y = torch.nn.functional.conv1d(
            joined.transpose(1, 2), weights["weight"], dilation=self.dilation, groups=x.shape[2]
        )
        y = y.transpose(1, 2).contiguous()  # or every product that follows copies it
        # a view of the window would hold all inputs
        return (y, joined[:, x.shape[1] :].clone()) if self.keep else (y,)
