"""Blocks: how a mixer A, a feed-forward network F and norms N are wired around the residual stream x.

    pre_norm          post_norm         sandwich             norm_after        parallel
    x = x + A(N x)    x = N(x + A x)    x = x + N(A(N x))    x = x + N(A x)    x = x + A(N x) + F(N x)
    x = x + F(N x)    x = N(x + F x)    x = x + N(F(N x))    x = x + N(F x)

A layer that lacks A or F has the line of the other alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.mixer import NO_MIXER, Mixer, MixerFacts
from archcli.modules.networks.activation import dropped
from archcli.modules.networks.ffn import FeedForward, caches, feed
from archcli.modules.networks.norm import Norm, again, has_weight
from archcli.modules.spec.base import Conflict, Inherit, Positive, Share, Size, children
from archcli.modules.spec.context import Context, Kept, SharedBlocks, or_default
from archcli.modules.spec.unread import Holder
from archcli.ops import Add, Scale

if TYPE_CHECKING:  # a field of few, imported where it is given a value
    from archcli.modules.attention.cross import CrossAttention

MIXING = ("attention", "mixer")
"""The keys under which a layer's mixer may be written."""

RESIDUAL = "_residual"
"""The end of the name of each op that adds to the stream, such as attention_residual."""

PLAIN = {"residual_multiplier": 1.0, "nth_branch": None, "dropout": 0.0}
"""Fields that change a sublayer's addition to the stream, and their neutral values."""


class Block(Holder):
    """One layer: a mixer of tokens and a feed-forward network on a residual stream of width D.

    `attention` mixes tokens. `mixer` is the same key by another name, for what is no attention; rows and
    weights are named by the key that is written. `ffn` works on each token; a layer without it, or without a
    mixer, has one sublayer (Mamba, arXiv:2312.00752).

    `residual_multiplier` scales what each adds to the stream (Granite 0.22, MiniCPM 1.4/sqrt(n_layers)); 1
    adds it as it is. `nth_branch` n keeps the stream's size: of its n branches so far, the last of which is
    the mixer's, each has the share 1/n, so that x sqrt(1 - 1/n) + y sqrt(1/n) (Beam; the network's is n + 1).
    `dropout` zeroes that share of it in training. `unread` are parameters that the layer holds and no pass
    reads, by name with how many numbers each is, or its shape (adapters to proteins in Evolla, experts for
    tokens of images in ERNIE 4.5 VL).
    """

    family: ClassVar[str] = "block"
    wiring: ClassVar[str] = "serial"
    """Whether the network reads what the mixer has written (serial), or what the mixer reads (parallel)."""
    reads_embedding: ClassVar[bool] = False
    """Whether it reads the embeddings beside the stream, and returns what is added to it."""
    attention: Mixer | None = None
    mixer: Mixer | None = None
    ffn: FeedForward | None = None
    norm: Annotated[Norm, Inherit("norm")]
    residual_multiplier: Positive = 1.0
    nth_branch: Size | None = None
    dropout: Share = 0.0

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D] to [B, T, D], and the layer's new cache."""
        raise NotImplementedError

    @property
    def mixing(self) -> tuple[str, Mixer] | None:
        """(YAML key, mixer) of the layer; None for a layer without a mixer."""
        if self.attention is not None:
            return MIXING[0], self.attention
        return None if self.mixer is None else (MIXING[1], self.mixer)

    @property
    def crosses_source(self) -> bool:
        """Whether cross attention follows the mixer, or is a part of it."""
        merged = self.mixing is not None and self.mixing[1].reads_source
        return merged or getattr(self, "cross_attention", None) is not None  # a key of some kinds of block

    @property
    def reads_media(self) -> bool:
        """Whether its cross attention alone mixes tokens: a text without images passes such a layer by."""
        cross = getattr(self, "cross_attention", None)  # a key of some kinds of block
        return self.mixing is None and cross is not None and not cross.idle

    @property
    def reads_ids(self) -> bool:
        """Whether the layer reads the ids of the tokens, beside what its network does."""
        return False

    @property
    def all_networks(self) -> tuple[FeedForward, ...]:
        """The feed-forward network, and the mixture that some kinds of block have beside it."""
        return tuple(network for network in (self.ffn, getattr(self, "beside", None)) if network is not None)

    @property
    def used(self) -> str | None:
        """The name of the shared block that it runs."""
        return None

    def resolved(self, shared: SharedBlocks) -> tuple[Block, Any, str | None]:
        """(block, what runs it, the key of weights it shares); the block itself unless it uses another."""
        return self, self, None

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """The facts of the layer's mixer, empty for a layer without one."""
        return NO_MIXER if self.mixing is None else self.mixing[1].facts(d_model)

    def table(self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None) -> Any:
        """The rotary table that the layer's mixer needs; a stack computes it once."""
        return None if self.mixing is None else self.mixing[1].table(positions, d_model, name, like)

    def places_after(self, grid: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns behind the layer of a grid of places."""
        return grid

    @property
    def streams(self) -> Number:
        """How many residual streams it works on."""
        return 1

    def enter(self, x: Tensor) -> Tensor:
        """The stream that the layers of a stack work on, from the embeddings x; for its first layer."""
        return x

    def leave(self, x: Tensor) -> Tensor:
        """Vectors [B, T, D] from the stream x; for the last layer of a stack."""
        return x

    def check(self) -> Iterator[Conflict]:
        """Conflicts: two mixers, neither mixer nor network, a network that needs another kind of block."""
        yield from super().check()
        if self.ffn is not None:
            yield from self.ffn.check_in(getattr(self, "kind", ""))
        if self.attention is not None and self.mixer is not None:
            what = "attention and mixer are one key under two names"
            yield Conflict("one-mixer", "mixer", what, "leave one of them out")
        if self.mixing is None and self.ffn is None and not self.unread and self.used is None:
            what = "a layer needs attention (or a mixer), or ffn"
            yield Conflict("layer-empty", "attention", what, "add attention: {kind: …}, or ffn: {kind: …}")

    def check_plain(self, where: str) -> Iterator[Conflict]:
        """Conflicts of a kind of block, named in `where`, that adds its sublayers' outputs unchanged."""
        for key, value in PLAIN.items():
            if getattr(self, key) != value:
                what = f"{key} is not defined for {where}"
                yield Conflict("residual-plain", key, what, f"leave {key} out")

    def check_stateless(self, where: str) -> Iterator[Conflict]:
        """Conflict of a kind of block, named in `where`, whose network cannot carry a state."""
        if self.ffn is not None and self.ffn.keeps_state:
            what = f"a network of {where} cannot carry a state"
            yield Conflict("network-without-state", "ffn", what, "use kind mlp, glu or moe")

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts of its mixers and networks with a residual stream of width D."""
        for step, child in children(self):
            if isinstance(child, Mixer | FeedForward):
                yield from (conflict.below(step) for conflict in child.check_width(d_model))

    def _add(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        y = dropped(y, self.dropout, f"{name}_dropout")
        if self.nth_branch is not None:
            nth = self.nth_branch + (0 if name in MIXING else 1)
            # squares of both factors sum to 1: unrelated branches keep the stream's variance
            x = Scale(f"{name}_stream_share", (1 - 1 / nth) ** 0.5)(x)
            y = Scale(f"{name}_share", nth**-0.5)(y)
        if self.residual_multiplier != 1.0:
            y = Scale(f"{name}_multiplier", self.residual_multiplier)(y)
        total: Tensor = Add(f"{name}{RESIDUAL}")(x, y)
        return total


class SerialBlock(Block):
    """Mixer, then cross attention in a decoder of an encoder-decoder, then feed-forward network.

    A kind says what a sublayer reads (`before`) and how its output joins the stream (`after`).
    """

    cross_attention: CrossAttention | None = None

    def before(self, x: Tensor, name: str) -> Tensor:
        """The input of the sublayer of that name."""
        raise NotImplementedError

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """The residual stream after the sublayer's output y."""
        raise NotImplementedError

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """Run the mixer, cross attention if there is a source, and the feed-forward network."""
        context = or_default(x, context)
        self.hold(x)
        (cache, fed), cross = caches(self.ffn, context.cache), self.cross_attention
        crosses = cross is not None and not cross.idle
        kept: Kept = None if cache is None else ()
        # a layer that crosses caches a pair; None and () mean the same to both
        mixed, crossed = cache if crosses and cache else (cache, cache)
        if self.mixing is not None:
            x, kept = self.mix(x, context._replace(cache=mixed), *self.mixing)
        if cross is not None and crosses:
            x, source = self._cross(cross, x, context._replace(cache=crossed))
            kept = None if cache is None else (kept, source)
        elif cross is not None:
            self._declare(cross, x, context)
        if self.ffn is not None:
            y, kept = self.network(x, self.ffn, fed, kept)
            x = self.after(x, y, "ffn")
        return x, kept

    def mix(self, x: Tensor, context: Context, step: str, mixer: Mixer) -> tuple[Tensor, Kept]:
        """The stream after the mixer of that key, and what that keeps."""
        y, kept = mixer(self.before(x, step), context, name=step)
        return self.after(x, y, step), kept

    def network(self, x: Tensor, ffn: FeedForward, cache: Kept, kept: Kept) -> tuple[Tensor, Kept]:
        """The network's output, and what the layer caches: `kept`, and the network's state if it has one."""
        return feed(ffn, self.before(x, "ffn"), cache, kept)

    def _cross(self, cross: CrossAttention, x: Tensor, context: Context) -> tuple[Tensor, Kept]:
        """x after cross attention, and what that keeps of the source."""
        y, source = cross(self.before(x, "cross_attention"), context, name="cross_attention")
        return self.after(x, y, "cross_attention"), source

    def _declare(self, cross: CrossAttention, x: Tensor, context: Context) -> None:
        """Declare the weights of a cross attention that does not run."""
        tape = x.tape.declaring()
        if tape is not None:
            x = Tensor(tape, x.value)
            positions = Tensor(tape, context.positions.value)
            # x stands for the source: shapes of weights go by its width alone
            self._cross(cross, x, Context(positions, memory=x))


class PreNorm(SerialBlock):
    """x += A(N x); x += F(N x). The stream itself is never normalized.

    Xiong et al. 2020, arXiv:2002.04745; GPT-2. `normed` ffn leaves out the norm before the mixer (the first
    layer of ModernBERT, arXiv:2412.13663, which reads embeddings that are normalized). `ffn_norm` is the norm
    before the network where that is another (A.X K2's dense layers). With `stream_scale` what a sublayer adds
    to is c x, c a trained number of each channel (Doge); `layer_scale` is what the trained numbers of each
    channel start at that multiply what it adds (CaiT, arXiv:2103.17239 section 2; DINOv2).
    """

    kind: Literal["pre_norm"] = "pre_norm"
    normed: Literal["both", "ffn"] = "both"
    ffn_norm: Norm | None = None
    stream_scale: bool = False
    layer_scale: Positive | None = None

    def check(self) -> Iterator[Conflict]:
        """Conflict: a norm of a network that is not there."""
        yield from super().check()
        if self.ffn_norm is not None and self.ffn is None:
            what = "ffn_norm is the norm before ffn, and there is none"
            yield Conflict("norm-without-ffn", "ffn_norm", what, "leave it out, or add ffn")

    def before(self, x: Tensor, name: str) -> Tensor:
        """N x, or x before a mixer that has no norm."""
        if self.normed == "ffn" and name in MIXING:
            return x
        norm = self.ffn_norm if self.ffn_norm is not None and name == "ffn" else self.norm
        normalized: Tensor = norm(x, name=f"{name}_norm")
        return normalized

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """x + y, c x + y, or x + c y."""
        if self.layer_scale is not None:
            from archcli.ops import TrainedScale  # rare: encoders of images

            y = TrainedScale(f"{name}_layer_scale", per_channel=True, start=self.layer_scale)(
                y, group="norms"
            )
        if self.stream_scale:
            from archcli.ops import TrainedScale  # rare: Doge

            x = TrainedScale(f"{name}_stream_scale", per_channel=True)(x, group="norms")
        return self._add(x, y, name)


class PostNorm(SerialBlock):
    """x = N(x + A x); x = N(x + F x). Vaswani et al. 2017, arXiv:1706.03762; BERT.

    `adapter` is a further network P behind F, normalized by the norm of F once more: x = N(x + P x) (X-MOD,
    arXiv:2205.06266).
    """

    kind: Literal["post_norm"] = "post_norm"
    adapter: FeedForward | None = None

    def check(self) -> Iterator[Conflict]:
        """Conflict: an adapter whose norm is not there, or has no weight."""
        yield from super().check()
        if self.adapter is not None and not (self.ffn is not None and has_weight(self.norm)):
            yield Conflict(
                "adapter-norm",
                "adapter",
                "an adapter needs an ffn, and a norm of kind rmsnorm or layernorm with a weight",
                "add ffn, and norm: layernorm",
            )
        if self.adapter is not None and self.adapter.keeps_state:
            what = "an adapter cannot carry a state from token to token"
            yield Conflict("adapter-without-state", "adapter", what, "use kind mlp or glu")

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """As every block, then the adapter if there is one."""
        x, kept = super().forward(x, context)
        if self.adapter is not None:
            x = again(self.norm, self._add(x, self.adapter(x, name="adapter"), "adapter"), "ffn_norm")
        return x, kept

    def before(self, x: Tensor, name: str) -> Tensor:
        """x."""
        return x

    def after(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        """N(x + y)."""
        normalized: Tensor = self.norm(self._add(x, y, name), name=f"{name}_norm")
        return normalized
