"""Wirings besides pre-norm and post-norm: sandwich, norm after, parallel, normed stream, timed.

B batch, T new tokens, D d_model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.graph import Tensor
from archcli.modules.attention.mixer import Mixer
from archcli.modules.blocks.block import RESIDUAL, Block, PreNorm, SerialBlock
from archcli.modules.networks.activation import GELU, Activation
from archcli.modules.networks.ffn import FeedForward, caches, feed
from archcli.modules.networks.norm import Norm
from archcli.modules.networks.per_layer import gated_by_layer
from archcli.modules.spec.base import Conflict, Count, Positive, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import Add, AddConstant, KeepFirst, Linear, Multiply, Positions, Scale, Sinusoid, StoredScale

TIME = "time_condition"
"""The heading of what a layer makes of a time, and how the names of its ops begin."""
LEAST_SHARE = 1e-3
"""The least square of the stream's share beside a gated branch, so that its root has a gradient."""
LAUREL = "laurel"
"""The heading of learned augmented residuals, and how the names of their ops begin."""


class DoubleNorm(SerialBlock):
    """x += N(A(N x)); x += N(F(N x)), with further residuals and networks.

    `post_norm` is the norm after a sublayer, where it is another than the one before (Muse Glimmer, in its
    eps), `ffn_post_norm` that after the network (Muse Spark).

    `laurel_rank` r adds a learned augmented residual beside the mixer, which reads the same u = N x: x = (x +
    N(A u) + u + N(R L u)) / sqrt(2), L [r, D] and R [D, r] (LAuReL, arXiv:2411.07501 section 2; Gemma 3n).
    `beside` is a mixture that reads x itself; F's output is normalized and added to its: x += N(N(F(N x)) +
    M(x)) (Gemma 4). With `per_layer_gate` g, an activation, the layer ends with x += N(P(g(G x) * e)), where
    e is the model's per-layer embedding for it. `stored_scale` multiplies the result by a stored number,
    which is not trained (Gemma 4). With `residual_gate` t, a temperature, a trained number g of each channel
    says what share a sublayer has of the sum: x = sqrt(1 - b^2) x + b N(A(N x)), b = sigmoid(g / t) (Muse
    Spark).
    """

    post_norm: Norm | None = None
    ffn_post_norm: Norm | None = None
    laurel_rank: Size | None = None
    beside: FeedForward | None = None
    per_layer_gate: Activation | None = None
    stored_scale: bool = False
    residual_gate: Positive | None = None

    def before(self, x: Tensor, name: str) -> Tensor:
        """N x."""
        normalized: Tensor = self.norm(x, name=f"{name}_norm")
        return normalized

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """x + N y, or trained shares of both."""
        norm = self.ffn_post_norm if self.ffn_post_norm is not None and name == "ffn" else self.post_norm
        y = (norm or self.norm)(y, name=f"{name}_post_norm")
        if self.residual_gate is None:
            return self._add(x, y, name)
        from archcli.ops import GatedResidual  # rare: Muse Spark

        op = GatedResidual(f"{name}{RESIDUAL}", self.residual_gate, LEAST_SHARE)
        joined: Tensor = op(x, y, group="norms")
        return joined

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Both sublayers, then what the layer's own embedding adds, and the stored factor."""
        context = or_default(x, context)
        x, kept = super().forward(x, context)
        if self.per_layer_gate is not None:
            y = gated_by_layer(x, context, self.per_layer_gate, self.norm)
            x = self._add(x, y, "per_layer")
        return StoredScale("stored_scale")(x) if self.stored_scale else x, kept

    def mix(self, x: Tensor, context: Context, step: str, mixer: Mixer) -> tuple[Tensor, Kept]:
        """The stream after the mixer, with the learned augmented residual if there is one."""
        if self.laurel_rank is None:
            return super().mix(x, context, step, mixer)
        normed = self.before(x, step)
        y, kept = mixer(normed, context, name=step)
        low = Linear(f"{LAUREL}_down", self.laurel_rank)(normed, group=LAUREL)
        back = Linear(f"{LAUREL}_up", x.shape[-1])(low, group=LAUREL)
        back = self.norm(back, name=f"{LAUREL}_norm", group=LAUREL)
        learned = Add(f"{LAUREL}_add")(normed, back, group=LAUREL)
        # the mixer's output is normalized and on the stream before LAuReL's joins it (Gemma 3n)
        both = Add(f"{LAUREL}_join")(self.after(x, y, step), learned, group=LAUREL)
        return Scale(f"{LAUREL}_scale", 2**-0.5)(both, group=LAUREL), kept

    def network(self, x: Tensor, ffn: FeedForward, cache: Kept, kept: Kept) -> tuple[Tensor, Kept]:
        """The network's output, plus that of the mixture beside it."""
        y, kept = super().network(x, ffn, cache, kept)
        if self.beside is None:
            return y, kept
        y = self.norm(y, name="ffn_own_norm")
        return Add("beside_add")(y, self.beside(x, name="beside")), kept

    def check(self) -> Iterator[Conflict]:
        """Conflicts: a residual beside no mixer, a mixture beside no network."""
        yield from super().check()
        if self.laurel_rank is not None and self.mixing is None:
            what = "laurel_rank is of a residual beside the mixer, and there is none"
            yield Conflict("laurel-needs-mixer", "laurel_rank", what, "add attention, or leave it out")
        if self.beside is not None and self.ffn is None:
            what = "there is no ffn that this could stand beside"
            yield Conflict("beside-needs-ffn", "beside", what, "write it as ffn")
        if self.beside is not None and self.beside.keeps_state:
            what = "a network beside another cannot carry a state from token to token"
            yield Conflict("beside-without-state", "beside", what, "use kind mlp, glu or moe")
        if self.ffn_post_norm is not None and self.ffn is None:
            what = "ffn_post_norm is the norm after ffn, and there is none"
            yield Conflict("post-norm-without-ffn", "ffn_post_norm", what, "leave it out, or add ffn")
        if self.residual_gate is not None:
            yield from self.check_plain("a block with residual_gate")


class Sandwich(DoubleNorm):
    """x += N(A(N x)); x += N(F(N x)): norms before and after, also called double norm.

    CogView, arXiv:2105.13290; Gemma 2, arXiv:2408.00118.
    """

    kind: Literal["sandwich"] = "sandwich"


class ResidualPostNorm(SerialBlock):
    """x += N(A x); x += N(F x): the norm follows the sublayer, inside the residual.

    OLMo 2, arXiv:2501.00656 section 2.1.

    Differs from PostNorm in leaving the residual stream itself unnormalized.
    """

    kind: Literal["norm_after"] = "norm_after"

    def before(self, x: Tensor, name: str) -> Tensor:
        """x."""
        return x

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """x + N y."""
        return self._add(x, self.norm(y, name=f"{name}_norm"), name)


class Parallel(Block):
    """x += A(N x) + F(N x): both read the same stream. GPT-J; PaLM, arXiv:2204.02311 section 2.

    `n_norms` 1 shares one norm (GPT-J, Falcon-7B, Phi-2); 2 gives each its own (GPT-NeoX, arXiv:2204.06745;
    Falcon-40B).
    """

    wiring: ClassVar[str] = "parallel"
    kind: Literal["parallel"] = "parallel"
    n_norms: Literal[1, 2] = 1

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Normalize, run mixer and feed-forward network in parallel, add both to the stream."""
        context = or_default(x, context)
        self.hold(x)
        cache, fed = caches(self.ffn, context.cache)
        kept: Kept = None if cache is None else ()
        first = "ffn" if self.mixing is None else self.mixing[0]
        normed = self.norm(x, name=f"{first}_norm")
        # one sublayer has one norm, whatever n_norms says
        shares = self.n_norms == 1 or self.mixing is None or self.ffn is None
        read = normed if shares else self.norm(x, name="ffn_norm")
        if self.mixing is not None:
            y, kept = self.mixing[1](normed, context._replace(cache=cache), name=first)
            x = self._add(x, y, first)
        if self.ffn is not None:
            y, kept = feed(self.ffn, read, fed, kept)
            x = self._add(x, y, "ffn")
        return x, kept


class NormedStream(Block):
    """x = N x; x = alpha x + beta A(x); x = N x; x = alpha x + beta F(x).

    The stream is normalized before each sublayer, which adds to what it reads: DeepNorm (arXiv:2203.00555)
    over normalized embeddings, as MiniMax-01 has it (arXiv:2501.08313). `alpha` and `beta` are those of the
    mixer, `ffn_alpha` and `ffn_beta` those of the network.
    """

    kind: Literal["normed_stream"] = "normed_stream"
    alpha: Positive = 1.0
    beta: Positive = 1.0
    ffn_alpha: Positive = 1.0
    ffn_beta: Positive = 1.0

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Normalize, run the mixer and add; normalize, run the feed-forward network and add."""
        context = or_default(x, context)
        self.hold(x)
        kept: Kept = None if context.cache is None else ()
        if self.mixing is not None:
            step, mixer = self.mixing
            x = self.norm(x, name=f"{step}_norm")
            y, kept = mixer(x, context, name=step)
            x = self._join(x, y, step, (self.alpha, self.beta))
        if self.ffn is not None:
            x = self.norm(x, name="ffn_norm")
            x = self._join(x, self.ffn(x, name="ffn"), "ffn", (self.ffn_alpha, self.ffn_beta))
        return x, kept

    def check(self) -> Iterator[Conflict]:
        """Conflict: a network that carries a state."""
        yield from super().check()
        yield from self.check_stateless("normed_stream")

    def _join(self, x: Tensor, y: Tensor, name: str, factors: tuple[float, float]) -> Tensor:
        """alpha x + beta y."""
        alpha, beta = factors
        x = x if alpha == 1.0 else Scale(f"{name}_alpha", alpha)(x)
        y = y if beta == 1.0 else Scale(f"{name}_beta", beta)(y)
        return self._add(x, y, name)


class TimedPreNorm(PreNorm):
    """x += A(N x); x += F(N x * (1 + U gelu(W t))): the network reads x scaled by a delay t.

    Voxtral Realtime. t is the sinusoid [D] of `delay`, cosines first: the tokens by which what is written
    stays behind what is heard, the same for all tokens. W is [`rank`, D] and U [D, `rank`], without biases:
    one product of a pass, however many tokens and sequences it has.
    """

    kind: Literal["timed_pre_norm"] = "timed_pre_norm"  # type: ignore[assignment]
    rank: Size = 32
    delay: Count

    def before(self, x: Tensor, name: str) -> Tensor:
        """N x; of the network times the factor of each channel."""
        normed = super().before(x, name)
        return Multiply(f"{TIME}_scaled")(normed, self._factors(normed)) if name == "ffn" else normed

    def _factors(self, x: Tensor) -> Tensor:
        """1 + U gelu(W t) [1, D]."""
        start = Positions(f"{TIME}_start")(KeepFirst(f"{TIME}_first")(x))
        time = AddConstant(f"{TIME}_delay", self.delay)(start)
        wave = Sinusoid(f"{TIME}_wave", x.shape[-1], pairing="half", first="cosine")(time, x)
        low = GELU()(
            Linear(f"{TIME}_down", self.rank)(wave, group=TIME), name=f"{TIME}_activation", group=TIME
        )
        high = Linear(f"{TIME}_up", x.shape[-1])(low, group=TIME)
        factors: Tensor = AddConstant(f"{TIME}_one", 1)(high, group=TIME)
        return factors

    def check(self) -> Iterator[Conflict]:
        """Conflict: no network whose input could be scaled."""
        yield from super().check()
        if self.ffn is None:
            what = "the time scales what ffn reads, and there is none"
            yield Conflict("time-without-ffn", "delay", what, "add ffn, or use kind pre_norm")
