"""Experts whose router hands its state of a token to the next layer's router, and their blocks.

B batch, T new tokens, D d_model, E experts, R width of the router.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Experts, Tensor
from archcli.modules.blocks.block import Block
from archcli.modules.networks.activation import GELU
from archcli.modules.networks.ffn import FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inherit, Size
from archcli.modules.spec.context import Context, Kept, or_default
from archcli.ops import (
    Add,
    Concat,
    Linear,
    Multiply,
    Parameter,
    Route,
    SkipLast,
    Split,
    Widen,
)

ROUTER, CURVE = "router", GELU()
SCALES = "residual_scales"
"""The heading of the factors and biases of streams and sublayers."""
# fc1 and fc2 of transformers' ZayaRouterMLP
LAYERS = 2
"""How many matrices the router has between its first and its last."""


class CarriedExperts(FeedForward):
    """p_e F_e(x) for the best e of E experts, or nothing: ZAYA1, arXiv:2511.17127.

        r = Wd x + a r',   z = W3 gelu(W2 gelu(W1 N r)),   p = softmax(z) over E + 1 choices

    r' [B, T, R] is r of the layer before, R `router_width`; with `first` there is none. Each F_e has the
    shape `expert`. The choice is the largest p plus a stored, untrained correction bias. A token whose choice
    is the last gets nothing; as in transformers, the first expert runs on it all the same. Stands in layers
    of kind carried, to which it returns r beside its output.
    """

    kind: Literal["carried_moe"] = "carried_moe"
    keeps_state: ClassVar[bool] = True
    n_experts: Size
    expert: FeedForward
    router_width: Size
    first: bool = False
    norm: Annotated[Norm, Inherit("norm")]

    @property
    def top_k(self) -> int:
        """1."""
        return 1

    def forward(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, D] and r' [B, T, R] to the same."""
        seen = Linear("router_down", self.router_width, True)(x, group=ROUTER)
        # layer 0 has no router before it, and no router_states_scale (ZayaRouter)
        if not self.first:
            factor = Parameter("router_carry", (self.router_width,))(x, group=ROUTER)
            carried = Multiply("router_carried")(before, factor, group=ROUTER)
            seen = Add("router_add")(seen, carried, group=ROUTER)
        weights, index = Route("route", 1, normalized=False, correction=True)(
            self._logits(seen), group=ROUTER
        )
        # transformers sends these tokens to expert 0 with the weight 0, so that it runs on them
        weights, index = SkipLast("skip", self.n_experts)(weights, index, group=ROUTER)
        return self.expert.routed(x, weights, index, Experts(self.n_experts, 1)), seen

    def _logits(self, seen: Tensor) -> Tensor:
        """z [B, T, E + 1]."""
        hidden = self.norm(seen, name="router_norm", group=ROUTER)
        for layer in range(LAYERS):
            hidden = Linear(f"router_{layer}", self.router_width, True)(hidden, group=ROUTER)
            hidden = CURVE(hidden, name=f"router_act_{layer}", group=ROUTER)
        logits: Tensor = Linear(ROUTER, self.n_experts + 1)(hidden, group=ROUTER)
        return logits

    def check(self) -> Iterator[Conflict]:
        """Conflict: experts that are mixtures or carry a state."""
        yield from super().check()
        if not self.expert.can_be_expert:
            what = "an expert can neither be a mixture nor carry a state"
            yield Conflict("carried-expert", "expert", what, "use kind mlp or glu")

    def check_in(self, block: str) -> Iterator[Conflict]:
        """Conflict: a block that does not hand on the router's state."""
        if block != "carried":
            what = "a network that hands numbers on to the next layer stands in a layer of kind carried"
            yield Conflict("network-carries", "ffn", what, "use kind: carried")


class CarriedRouting(Block):
    """x = s(x) + s(A(N x)); x = s(x) + s(F(N x)) with s(x) = (x + b) * a, each s of its own.

    F is a mixture of kind carried_moe, to which the block hands what the router of the layer before has seen,
    R numbers beside the stream. s is applied to the embeddings, too (ZAYA1, arXiv:2511.17127).
    """

    kind: Literal["carried"] = "carried"

    @property
    def _experts(self) -> CarriedExperts:
        if not isinstance(self.ffn, CarriedExperts):
            raise TypeError("a layer of kind carried has a network of kind carried_moe")  # as `check` says
        return self.ffn

    @property
    def streams(self) -> Number:
        """1 + R: one of D numbers, and each number that the routers hand on."""
        return 1 + (self.ffn.router_width if isinstance(self.ffn, CarriedExperts) else 0)

    def table(
        self, positions: Tensor, d_model: Number, name: str, like: Tensor | None = None
    ) -> tuple[Tensor, Tensor] | None:
        """The rotary table of the mixer, which reads D numbers of each token."""
        # the width of a stack's stream is D + R here
        return super().table(positions, d_model - self._experts.router_width, name, like)

    def enter(self, x: Tensor) -> Tensor:
        """Embeddings [B, T, D] to [B, T, D + R]."""
        widened: Tensor = Widen("stream_in", self._experts.router_width)(_affine(x, "embedding"))
        return widened

    def leave(self, x: Tensor) -> Tensor:
        """[B, T, D + R] to vectors [B, T, D]."""
        return self._parts(x, "stream_out")[0]

    def _parts(self, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
        width = self._experts.router_width
        stream, seen = Split(name, (x.shape[-1] - width, width))(x)
        return stream, seen

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, Kept]:
        """[B, T, D + R] to the same: the mixer, then the experts."""
        context = or_default(x, context)
        x, seen = self._parts(x, "stream")
        self.hold(x)
        kept: Kept = None if context.cache is None else ()
        if self.mixing is not None:
            step, mixer = self.mixing
            y, kept = mixer(self.norm(x, name=f"{step}_norm"), context, name=step)
            x = self._joined(x, y, step)
        y, seen = self._experts(self.norm(x, name="ffn_norm"), seen, name="ffn")
        both: Tensor = Concat("stream_join")(self._joined(x, y, "ffn"), seen)
        return both, kept

    def _joined(self, x: Tensor, y: Tensor, name: str) -> Tensor:
        return self._add(_affine(x, f"{name}_stream"), _affine(y, f"{name}_out"), name)

    def check(self) -> Iterator[Conflict]:
        """Conflict: another network than one of kind carried_moe."""
        yield from super().check()
        if not isinstance(self.ffn, CarriedExperts):
            what = "a layer of kind carried hands on what its router has seen"
            yield Conflict("carried-network", "ffn", what, "use ffn: {kind: carried_moe, …}")


def _affine(x: Tensor, name: str) -> Tensor:
    """(x + b) * a for trained a and b [D]."""
    bias, factor = (
        Parameter(f"{name}_{word}", (x.shape[-1],))(x, group=SCALES) for word in ("bias", "scale")
    )
    shifted = Add(f"{name}_biased", meets=False)(x, bias, group=SCALES)
    scaled: Tensor = Multiply(f"{name}_scaled")(shifted, factor, group=SCALES)
    return scaled
