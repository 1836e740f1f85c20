"""Blocks on several residual streams: AltUp (arXiv:2301.13310) and hyper-connections.

B batch, T new tokens, n streams, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.blocks.block import RESIDUAL, Block, SerialBlock
from archcli.modules.blocks.wirings import DoubleNorm
from archcli.modules.networks.ffn import caches, feed
from archcli.modules.networks.ngrams import KEPT_OF_NGRAMS, NGramStreams
from archcli.modules.networks.norm import Norm, RMSNorm, again
from archcli.modules.networks.per_layer import gated_by_layer
from archcli.modules.spec.base import Conflict, Count, Positive, Size
from archcli.modules.spec.context import Context, Kept, changed, or_default
from archcli.modules.spec.kinds import kind_of
from archcli.modules.spec.values import Interval
from archcli.ops import (
    Activate,
    Add,
    AddConstant,
    AddToLater,
    CollapseStreams,
    Einsum,
    Linear,
    MatchMagnitude,
    MeanStreams,
    MergeHeads,
    MixingGates,
    Multiply,
    Parameter,
    Scale,
    Split,
    SplitHeads,
    SpreadStreams,
    StackStreams,
    StreamGates,
    Subtract,
    TakeStream,
)

ALTUP = "altup"
"""The heading of AltUp's parameters, and how the names of its ops begin."""
# Gemma3nTextModel clamps the mean of squares at 1e-5
LEAST = 1e-5
"""The least mean of squares by which a stream is scaled."""


class AltUp(DoubleNorm):
    """Alternating updates of n residual streams x_1 … x_n. Baykal et al. 2023, arXiv:2301.13310 section 3.

        p_i = x_i + sum_j P_ij(r) x_j            predict, r = tanh(W N(x_a) / D)
        y = F(p_a)                               the layer itself, on the active stream a
        x_i = p_i + (1 + C_i(r')) (y - p_a)      correct, r' = tanh(W N(y) / D)

    P and C are linear in r, W is [n, D]. `inputs` is n, `active` a. `corrects_scale` holds a factor per
    channel on the corrected active stream before the per-layer embedding is added to all streams but the
    first. Before the first layer every other stream is a D x D map of the embeddings, as long as these are;
    behind the last, each is mapped back alike and the mean is taken (Gemma 3n; the paper repeats and
    splits).
    """

    kind: Literal["altup"] = "altup"
    inputs: Annotated[int, Interval(ge=2)] = 4
    active: Count = 0
    corrects_scale: bool = True

    @property
    def streams(self) -> Number:
        """n."""
        return self.inputs

    def enter(self, x: Tensor) -> Tensor:
        """Embeddings [B, T, D] to streams [B, T, n, D]."""
        others = [self._alike(x, x, f"{ALTUP}_in_{i}") for i in range(self.inputs - 1)]
        streams: Tensor = StackStreams(f"{ALTUP}_streams")(x, *others, group=ALTUP)
        return streams

    def leave(self, x: Tensor) -> Tensor:
        """Streams [B, T, n, D] to vectors [B, T, D]."""
        first, *others = [TakeStream(f"{ALTUP}_last_{i}", i)(x) for i in range(self.inputs)]
        back = [self._alike(stream, first, f"{ALTUP}_out_{i}") for i, stream in enumerate(others)]
        joined = StackStreams(f"{ALTUP}_joined")(first, *back, group=ALTUP)
        mean: Tensor = MeanStreams(f"{ALTUP}_mean")(joined, group=ALTUP)
        return mean

    def _alike(self, x: Tensor, like: Tensor, name: str) -> Tensor:
        """A map of x [B, T, D], as long as `like`."""
        mapped = Linear(name, x.shape[-1])(x, group=ALTUP)
        matched: Tensor = MatchMagnitude(f"{name}_magnitude", LEAST)(mapped, like, group=ALTUP)
        return matched

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Predict, run the layer on the active stream, correct, add the per-layer embedding."""
        context = or_default(x, context)
        predicted = self._predict(x)
        before = TakeStream(f"{ALTUP}_active", self.active)(predicted)
        # not DoubleNorm's forward: the per-layer embedding joins behind the correction (Gemma 3n)
        y, kept = SerialBlock.forward(self, before, context)
        streams = self._correct(predicted, before, y)
        if self.per_layer_gate is not None:
            first = TakeStream(f"{ALTUP}_corrected", self.active)(streams)
            if self.corrects_scale:
                factor = Parameter(f"{ALTUP}_output_scale", (x.shape[-1],))(x, group=ALTUP)
                first = Multiply(f"{ALTUP}_scaled")(first, factor, group=ALTUP)
            added = gated_by_layer(first, context, self.per_layer_gate, self.norm)
            streams = AddToLater("per_layer_add")(streams, added, group=ALTUP)
        return streams, kept

    def _predict(self, x: Tensor) -> Tensor:
        active = TakeStream(f"{ALTUP}_input", self.active)(x)
        normed = self.norm(active, name=f"{ALTUP}_norm", group=ALTUP)
        router = Linear(f"{ALTUP}_router", self.inputs)
        routed = self._routed(router(self._divided(normed, "input"), group=ALTUP), "input")
        shares = Linear(f"{ALTUP}_prediction", self.inputs * self.inputs)(routed, group=ALTUP)
        shares = SplitHeads(f"{ALTUP}_shares", self.inputs)(shares)
        # p streams are read, q are predicted; transformers permutes the last two axes for a matmul
        mixed = Einsum(f"{ALTUP}_mix", "btpd,btqp->btqd")(x, shares, group=ALTUP)
        predicted: Tensor = Add(f"{ALTUP}_predicted")(mixed, x, group=ALTUP)
        return predicted

    def _correct(self, predicted: Tensor, before: Tensor, y: Tensor) -> Tensor:
        # Gemma3nTextAltUp runs one norm and one router twice: to predict, and to correct
        normed = again(self.norm, y, f"{ALTUP}_norm")
        weight = y.tape.weight(Linear(f"{ALTUP}_router", self.inputs), y, group=ALTUP)
        router = Linear(f"{ALTUP}_router_again", self.inputs, borrowed=True)
        routed = self._routed(router(self._divided(normed, "output"), weight, group=ALTUP), "output")
        shares = Linear(f"{ALTUP}_correction", self.inputs)(routed, group=ALTUP)
        shares = AddConstant(f"{ALTUP}_correction_one", 1)(shares, group=ALTUP)
        news = Subtract(f"{ALTUP}_innovation")(y, before, group=ALTUP)
        corrected: Tensor = SpreadStreams(f"{ALTUP}_correct")(predicted, news, shares, group=ALTUP)
        return corrected

    def _divided(self, x: Tensor, which: str) -> Tensor:
        # a float power: numpy refuses whole numbers to a negative whole power
        divided: Tensor = Scale(f"{ALTUP}_{which}_divided", x.shape[-1] ** -1.0)(x, group=ALTUP)
        return divided

    def _routed(self, x: Tensor, which: str) -> Tensor:
        routed: Tensor = Activate(f"{ALTUP}_{which}_tanh", "tanh")(x, group=ALTUP)
        return routed

    def check(self) -> Iterator[Conflict]:
        """Conflict: an active stream that is not there."""
        yield from super().check()
        if self.active >= self.inputs:
            what = f"active {self.active} is none of {self.inputs} streams, which count from 0"
            yield Conflict("active-stream", "active", what, f"at most {self.inputs - 1}")


HYPER = "hyper_connections"
"""The heading of the parameters that gather and return streams."""


class StreamBlock(Block):
    """Base of blocks on n residual streams, gathered by each sublayer, whose output they share.

    `n_streams` is n. Before the first layer each stream is the embedding.
    """

    n_streams: Annotated[int, Interval(ge=2)] = 4

    @property
    def streams(self) -> Number:
        """n."""
        return self.n_streams

    def enter(self, x: Tensor) -> Tensor:
        """Embeddings [B, T, D] to streams [B, T, n, D]."""
        streams: Tensor = StackStreams("hyper_streams")(*[x] * self.n_streams, group=HYPER)
        return streams

    def gathered(self, x: Tensor, step: str) -> tuple[Tensor, ...]:
        """What a sublayer reads [B, T, D], and by what its output returns: gates [B, T, n], …."""
        raise NotImplementedError

    def returned(self, x: Tensor, y: Tensor, back: list[Tensor], step: str) -> Tensor:
        """The streams with their shares of a sublayer's output y."""
        streams: Tensor = SpreadStreams(f"{step}{RESIDUAL}", meets=True)(x, y, back[0], group=HYPER)
        return streams

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Gather, run the mixer and return its output; gather, run the network and return its output."""
        context = or_default(x, context)
        self.hold(x)
        cache, fed = caches(self.ffn, context.cache)
        kept: Kept = None if cache is None else ()
        if self.mixing is not None:
            step, mixer = self.mixing
            read, *back = self.gathered(x, step)
            y, kept = mixer(read, context._replace(cache=cache), name=step)
            x = self.returned(x, y, back, step)
        if self.ffn is not None:
            read, *back = self.gathered(x, "ffn")
            y, kept = feed(self.ffn, read, fed, kept, context.ids)
            x = self.returned(x, y, back, "ffn")
        return x, kept

    def check(self) -> Iterator[Conflict]:
        """Conflicts: fields that are defined for a single residual stream."""
        yield from super().check()
        yield from self.check_plain("several streams")


class HyperConnected(StreamBlock):
    """n residual streams x_1 … x_n, which each sublayer F gathers and to which it returns.

        a, c = gates(W norm([x_1 … x_n]))    W [2 n, n D], a stream's own numbers
        y = F(N sum_i a_i x_i),  x_i = x_i + c_i y

    a = sigmoid(s_a z + b_a) + eps, c = m sigmoid(s_c z + b_c) + eps, with two trained scales s, 2 n trained
    biases b, and `magnitude` m (Hy4; hyper-connections, arXiv:2409.19606, without a matrix that mixes
    streams). With `sinkhorn` iterations a matrix M with rows and columns that sum to 1 mixes them, x_i =
    sum_j M_ji x_j + c_i y, W is [(2 + n) n, n D], and c has no eps (manifold-constrained hyper-connections,
    arXiv:2512.24880; DeepSeek-V4). `n_streams` is n, `stream_norm` the norm of all streams together. Before
    the first layer each stream is the embedding; behind the last, gates of their own gather them, or with
    `last` mean they are averaged (GLM-5.3).
    """

    kind: Literal["hyper"] = "hyper"
    magnitude: Positive = 2.0
    eps: Annotated[float, Interval(ge=0)] = 1e-6
    stream_norm: Norm = RMSNorm(weight=False)
    sinkhorn: Size | None = None
    last: Literal["gates", "mean"] = "gates"

    def leave(self, x: Tensor) -> Tensor:
        """Streams [B, T, n, D] to vectors [B, T, D]."""
        if self.last == "mean":
            mean: Tensor = MeanStreams("hyper_last")(x, group=HYPER)
            return mean
        gathered: Tensor = CollapseStreams("hyper_last")(x, self._gates(x, "hyper_head", 1.0), group=HYPER)
        return gathered

    def gathered(self, x: Tensor, step: str) -> tuple[Tensor, ...]:
        """What a sublayer reads [B, T, D], the gates of its output [B, T, n], and M [B, T, n, n] if any."""
        name = f"{step}_hyper"
        if self.sinkhorn is None:
            gates = self._gates(x, name, 1.0, self.magnitude)
            gather, *back = Split(f"{name}_split", (self.n_streams,) * 2)(gates)
        else:
            logits = self._logits(x, name, (2 + self.n_streams) * self.n_streams)
            op = MixingGates(f"{name}_gates", self.n_streams, self.magnitude, self.eps, self.sinkhorn)
            gather, *back = op(logits, group=HYPER)
        read = CollapseStreams(f"{name}_gather")(x, gather, group=HYPER)
        return self.norm(read, name=f"{step}_norm"), *back

    def _gates(self, x: Tensor, name: str, *magnitudes: float) -> Tensor:
        """As many sets of n gates as there are magnitudes, of streams x."""
        logits = self._logits(x, name, len(magnitudes) * self.n_streams)
        gates: Tensor = StreamGates(f"{name}_gates", magnitudes, self.eps)(logits, group=HYPER)
        return gates

    def _logits(self, x: Tensor, name: str, number: Number) -> Tensor:
        """So many numbers [B, T, number] of all streams x together."""
        joined = self.stream_norm(MergeHeads(f"{name}_join")(x), name=f"{name}_norm", group=HYPER)
        logits: Tensor = Linear(name, number)(joined, group=HYPER)
        return logits

    def returned(self, x: Tensor, y: Tensor, back: list[Tensor], step: str) -> Tensor:
        """The streams, mixed where they are, with their shares of a sublayer's output."""
        gates, *mix = back
        if mix:
            x = Einsum(f"{step}_hyper_mix", "btjk,btjd->btkd")(mix[0], x, group=HYPER)
        return super().returned(x, y, [gates], step)


class LowRankHyperConnected(StreamBlock):
    """n residual streams, which each sublayer F gathers channel by channel, by gates of low rank.

        h_i = N x_i,  h = [h_1 … h_n]                                   a gain for each stream and channel
        y = F(mean_i a_i h_i),  [a_1 … a_n] = sigmoid(W_up silu(W_down h / n))     W_down [r, n D], a_i [D]
        x_i = x_i + c_i y,  c = 2 sigmoid(W_c h / n)                                           W_c [n, n D]

    Qwen4-Exp. Differs from `hyper` in its gates, one for each channel in place of one for a stream, and in
    having no norm behind them. `rank` is r. Behind the last layer streams are gathered once more alike.
    `ngrams` are added to the streams before the mixer (Qwen4-Exp's per-layer embedding).
    """

    kind: Literal["low_rank_hyper"] = "low_rank_hyper"
    rank: Size
    ngrams: NGramStreams | None = None

    @property
    def reads_ids(self) -> bool:
        """Whether it reads the ids of the tokens."""
        return self.ngrams is not None

    def leave(self, x: Tensor) -> Tensor:
        """Streams [B, T, n, D] to vectors [B, T, D]."""
        return self._read(x, "hyper_last")[0]

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Add the n-grams' vectors; then as any block on streams."""
        context = or_default(x, context)
        if self.ngrams is None:
            return super().forward(x, context)
        cache = context.cache
        of_ngrams, others = (cache[:KEPT_OF_NGRAMS], cache[KEPT_OF_NGRAMS:]) if cache else (cache, cache)
        added, first = self.ngrams(x, context.ids, of_ngrams, name="ngrams")
        x = Add(f"ngrams{RESIDUAL}")(x, added, group=self.ngrams.group)
        x, kept = super().forward(x, context._replace(cache=others))
        return x, changed(kept, lambda rest: (*first, *(rest or ())) if first else rest)

    def gathered(self, x: Tensor, step: str) -> tuple[Tensor, ...]:
        """What a sublayer reads [B, T, D], and the gates of its output [B, T, n]."""
        name = f"{step}_hyper"
        read, joined = self._read(x, name)
        logits = Linear(f"{name}_inject", self.n_streams)(joined, group=HYPER)
        logits = Scale(f"{name}_inject_scale", 1 / self.n_streams)(logits, group=HYPER)
        gates = Activate(f"{name}_inject_gate", "sigmoid")(logits, group=HYPER)
        return read, Scale(f"{name}_inject_twice", 2.0)(gates, group=HYPER)

    def _read(self, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
        """The gathered streams [B, T, D], and all streams as they are normalized [B, T, n D]."""
        normed = self.norm(x, name=f"{name}_norm", axes=2)
        joined = MergeHeads(f"{name}_join")(normed)
        low = Linear(f"{name}_down", self.rank)(joined, group=HYPER)
        low = Scale(f"{name}_down_scale", 1 / self.n_streams)(low, group=HYPER)
        low = Activate(f"{name}_down_act", "silu")(low, group=HYPER)
        gates = Linear(f"{name}_up", joined.shape[-1])(low, group=HYPER)
        gates = Activate(f"{name}_gate", "sigmoid")(gates, group=HYPER)
        gated = Multiply(f"{name}_gated")(normed, SplitHeads(f"{name}_split", self.n_streams)(gates))
        return MeanStreams(f"{name}_mean")(gated, group=HYPER), joined

    def check(self) -> Iterator[Conflict]:
        """Conflict: a norm that has no gain for every stream and channel."""
        yield from super().check()
        if not self.norm.per_head:
            what = f"{kind_of(self.norm)} has no gain for every stream and channel"
            yield Conflict("streams-norm", "norm", what, "use kind rmsnorm or layernorm")
