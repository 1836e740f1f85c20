"""HyperConnected: layers on several residual streams, which gates gather and to which they return.

B batch, T new tokens, n streams, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.base import Conflict, Positive
from archcli.modules.block import RESIDUAL, Block
from archcli.modules.context import Context, or_default
from archcli.modules.ffn import caches, feed
from archcli.modules.mixer import Kept
from archcli.modules.norm import Norm, RMSNorm
from archcli.modules.values import Interval
from archcli.ops import CollapseStreams, Linear, MergeHeads, Split, SpreadStreams, StackStreams, StreamGates

HYPER = "hyper_connections"
"""The heading of what gathers and returns streams."""


class HyperConnected(Block):
    """n residual streams x_1 … x_n, which each sublayer F gathers and to which it returns.

        a, c = gates(W norm([x_1 … x_n]))    W [2 n, n D], a stream's own numbers
        y = F(N sum_i a_i x_i),  x_i = x_i + c_i y

    a = sigmoid(s_a z + b_a) + eps, c = m sigmoid(s_c z + b_c) + eps, with two trained scales s, 2 n trained
    biases b, and `magnitude` m (Hy4; hyper-connections, arXiv:2409.19606, without a matrix that mixes
    streams). `n_streams` is n, `stream_norm` the norm of all streams together. Before the first layer each
    stream is the embedding; behind the last, gates of their own gather them.
    """

    kind: Literal["hyper"] = "hyper"
    n_streams: Annotated[int, Interval(ge=2)] = 4
    magnitude: Positive = 2.0
    eps: Annotated[float, Interval(ge=0)] = 1e-6
    stream_norm: Norm = RMSNorm(weight=False)

    @property
    def streams(self) -> Number:
        """n."""
        return self.n_streams

    def enter(self, x: Tensor) -> Tensor:
        """Embeddings [B, T, D] to streams [B, T, n, D]."""
        streams: Tensor = StackStreams("hyper_streams")(*[x] * self.n_streams, group=HYPER)
        return streams

    def leave(self, x: Tensor) -> Tensor:
        """Streams [B, T, n, D] to vectors [B, T, D]."""
        gathered: Tensor = CollapseStreams("hyper_last")(x, self._gates(x, "hyper_head", 1.0), group=HYPER)
        return gathered

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Gather, run the mixer and return its output; gather, run the network and return its output."""
        context = or_default(x, context)
        self.hold(x)
        cache, fed = caches(self.ffn, context.cache)
        kept: Kept = None if cache is None else ()
        if self.mixing is not None:
            step, mixer = self.mixing
            read, back = self._gathered(x, step)
            y, kept = mixer(read, context._replace(cache=cache), name=step)
            x = self._returned(x, y, back, step)
        if self.ffn is not None:
            read, back = self._gathered(x, "ffn")
            y, kept = feed(self.ffn, read, fed, kept)
            x = self._returned(x, y, back, "ffn")
        return x, kept

    def _gathered(self, x: Tensor, step: str) -> tuple[Tensor, Tensor]:
        """What a sublayer reads [B, T, D], and the gates of its output [B, T, n]."""
        gates = self._gates(x, f"{step}_hyper", 1.0, self.magnitude)
        gather, back = Split(f"{step}_hyper_split", (self.n_streams,) * 2)(gates)
        read = CollapseStreams(f"{step}_hyper_gather")(x, gather, group=HYPER)
        return self.norm(read, name=f"{step}_norm"), back

    def _gates(self, x: Tensor, name: str, *magnitudes: float) -> Tensor:
        """As many sets of n gates as there are magnitudes, of streams x."""
        joined = self.stream_norm(MergeHeads(f"{name}_join")(x), name=f"{name}_norm", group=HYPER)
        logits = Linear(name, len(magnitudes) * self.n_streams)(joined, group=HYPER)
        gates: Tensor = StreamGates(f"{name}_gates", magnitudes, self.eps)(logits, group=HYPER)
        return gates

    def _returned(self, x: Tensor, y: Tensor, gates: Tensor, step: str) -> Tensor:
        """The streams with their shares of a sublayer's output."""
        streams: Tensor = SpreadStreams(f"{step}{RESIDUAL}", meets=True)(x, y, gates, group=HYPER)
        return streams

    def check(self) -> Iterator[Conflict]:
        """Conflicts: what a single stream alone has."""
        yield from super().check()
        yield from self.check_plain("several streams")
