"""Feed-forward layers of one dense network: plain and gated.

Mixtures of experts stand in `experts.py` and are made of these.

B batch, T new tokens, D d_model, F d_ff.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from archcli.arith import Number, is_one
from archcli.graph import Experts, Tensor
from archcli.modules.networks.activation import GELU, Activation, SiLU, dropped
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Module, Positive, Share, Size
from archcli.modules.spec.kinds import kind_of
from archcli.ops import AddConstant, Clip, Linear, Multiply, Scale

if TYPE_CHECKING:
    from archcli.ops import BlockDiagonal

Branch = Literal["gate", "up", "down"]
Cache = tuple[Any, ...] | None
SHARED = "shared_experts"
"""The heading of experts that every token visits."""


class FeedForward(Module):
    """Per-token network, [B, T, D] to [B, T, D]."""

    family: ClassVar[str] = "ffn"
    title: ClassVar[str] = ""
    """What the field calls it, in a drawing; empty for the name of the class."""
    short_title: ClassVar[str] = ""
    """The same in at most 16 letters."""
    group: ClassVar[str] = "ffn"
    is_gated: ClassVar[bool] = False
    keeps_state: ClassVar[bool] = False
    """Whether it carries a state from token to token: its forward is given the state, and returns the new one
    beside its output."""

    @property
    def reads_ids(self) -> bool:
        """Whether its forward is given the ids of the tokens as well."""
        return False

    @property
    def width(self) -> Number | None:
        """F, the width between its matrices; None for a mixture, whose experts have widths of their own."""
        return getattr(self, "d_ff", None)

    @property
    def dense_network(self) -> FeedForward:
        """The network itself; of a mixture that of one expert."""
        dense: FeedForward = getattr(self, "expert", self)
        return dense

    @property
    def expert_counts(self) -> tuple[Number | None, Number | None]:
        """(routed experts, how many of them a token is sent to) of a mixture; None for what is not stated."""
        return getattr(self, "n_experts", None), getattr(self, "top_k", None)

    @property
    def activation_kind(self) -> str | None:
        """The kind of the activation; None for a network that states none."""
        return kind_of(getattr(self, "activation", None)) or None

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] to [..., D]."""
        raise NotImplementedError

    @property
    def can_be_expert(self) -> bool:
        """Whether it may be an expert: it is no mixture itself, and carries no state."""
        return not self.keeps_state and self.expert_counts[0] is None

    def routed(
        self,
        x: Tensor,
        weights: Tensor,
        index: Tensor,
        experts: Experts,
        *,
        step: str = "",
        weighted: bool = True,
        norm: Norm | None = None,
    ) -> Tensor:
        """The weighted sum of the chosen experts, all of this shape, for each of the tokens x [B, T, D].

        Weights and index [B, T, k] are a router's; `weighted` false adds the outputs up as they are, `norm`
        normalizes them before. `step` tells several such sums of one network apart: `experts`, or `shared`
        for those of every token.
        """
        from archcli.ops import Combine, Dispatch  # of mixtures alone

        begin, group = f"{step}_" if step else "", SHARED if step == "shared" else "experts"
        tokens, expert_of, order = Dispatch(f"{begin}dispatch")(x, index)
        outputs = self(tokens, name=step or "experts", group=group, experts=experts, index=expert_of)
        if norm is not None:
            outputs = norm(outputs, name=f"{begin}expert_out_norm")
        y: Tensor = Combine(f"{begin}combine", weighted)(outputs, weights, order)
        return y

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts with tokens of width D."""
        yield from ()

    def check_in(self, block: str) -> Iterator[Conflict]:
        """Conflicts with the kind of block that it stands in."""
        yield from ()


def matrix(name: str, out: Number, blocks: Number = 1, *, bias: bool) -> Linear | BlockDiagonal:
    """The product with a matrix, or with one that is zero but for `blocks` blocks on its diagonal."""
    if is_one(blocks):
        return Linear(name, out, bias)
    from archcli.ops import BlockDiagonal  # rare: SqueezeBERT

    return BlockDiagonal(name, blocks, out, bias)


def blocks_conflicts(blocks: tuple[int, ...], matrices: Sequence[str], *widths: int) -> Iterator[Conflict]:
    """Conflicts of numbers of blocks with the matrices that have them, and with widths they must divide."""
    if blocks and len(blocks) != len(matrices):
        what = f"blocks are of {', '.join(matrices)}: {len(matrices)} numbers, not {len(blocks)}"
        yield Conflict("blocks-of-each", "blocks", what, "state one for each")
    uneven = next(((n, width) for n in blocks for width in widths if width % n), None)
    if uneven is not None:
        what = f"{uneven[0]} blocks do not divide a width of {uneven[1]}"
        yield Conflict("blocks-divide", "blocks", what, "use a divisor")


class MLP(FeedForward):
    """down(act(up x)): two matrices.

    Vaswani et al. 2017, arXiv:1706.03762 section 3.3. `bias` false leaves both without bias. `dropout` zeroes
    that share of what lies between them in training (BART's activation dropout). `inner_norm` normalizes it
    (SubLN, arXiv:2210.06423). `blocks` states how many blocks on its diagonal `up` has, then `down`, where
    they are not whole matrices (SqueezeBERT, arXiv:2006.11316).
    """

    title: ClassVar[str] = "Two-layer network"
    short_title: ClassVar[str] = "MLP"
    kind: Literal["mlp"] = "mlp"
    d_ff: Size
    activation: Activation = GELU()
    bias: bool = False
    dropout: Share = 0.0
    inner_norm: Norm | None = None
    blocks: tuple[Size, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        """down(act(up x))."""
        up, down = self.blocks or (1, 1)
        hidden = self.activation(matrix("up_proj", self.d_ff, up, bias=self.bias)(x), name="activation")
        hidden = _normalized(dropped(hidden, self.dropout), self.inner_norm)
        y: Tensor = matrix("down_proj", x.shape[-1], down, bias=self.bias)(hidden)
        return y

    def check_width(self, d_model: int) -> Iterator[Conflict]:
        """Conflicts: blocks of other matrices than the two, or that do not divide their widths."""
        yield from blocks_conflicts(self.blocks, ("up", "down"), d_model, self.d_ff)


class GLU(FeedForward):
    """down(act(gate x) * up x): three matrices.

    Shazeer 2020, arXiv:2002.05202; with silu it is SwiGLU, with gelu GeGLU, with relu ReGLU.

    Differs from MLP in the gate. `bias` false, as in the paper, leaves all three without bias, true biases
    all, a list biases those it names (TeleChat down). `limit` c bounds the gate from above by c and the up
    branch to +-c, `up_offset` 1 adds one to the up branch (gpt-oss, arXiv:2508.10925). `limit_on` activation
    bounds the gate after its activation (Step 3.7). `dropout` zeroes that share of the gated branch in
    training. `inner_norm` normalizes it before the down projection (SubLN, arXiv:2210.06423; BitNet).
    `sparsity` p keeps of the gate what is above the p-quantile of a normal distribution with its mean and
    deviation, and subtracts that (Gemma 3n, arXiv:2506.06644).
    `gate_multiplier` and `down_multiplier` are constant factors on the gate before its activation, and on the
    result (Falcon-H1, arXiv:2507.22448).
    """

    title: ClassVar[str] = "Gated network"
    short_title: ClassVar[str] = "gated network"
    is_gated: ClassVar[bool] = True
    kind: Literal["glu"] = "glu"
    d_ff: Size
    activation: Activation = SiLU()
    bias: bool | tuple[Branch, ...] = False
    limit: Positive | None = None
    limit_on: Literal["gate", "activation"] = "gate"
    up_offset: Literal[0, 1] = 0
    dropout: Share = 0.0
    inner_norm: Norm | None = None
    sparsity: Share = 0.0
    gate_multiplier: Positive = 1.0
    down_multiplier: Positive = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """down(act(gate x) * up x)."""
        gate = self._sparse(Linear("gate_proj", self.d_ff, self._biased("gate"))(x))
        up = Linear("up_proj", self.d_ff, self._biased("up"))(x)
        # before the offset, as gpt-oss has it: clip(up) + 1
        if self.limit is not None:
            up = Clip("up_clip", self.limit)(up)
        if self.gate_multiplier != 1.0:
            gate = Scale("gate_multiplier", self.gate_multiplier)(gate)
        # gpt-oss bounds what its activation reads, Step 3.7 what it returns
        gate = self._bounded(gate, "gate")
        if self.up_offset:
            up = AddConstant("up_offset", self.up_offset)(up)
        gate = self._bounded(self.activation(gate, name="activation"), "activation")
        hidden = Multiply("gated")(gate, up)
        hidden = _normalized(dropped(hidden, self.dropout), self.inner_norm)
        y: Tensor = Linear("down_proj", x.shape[-1], self._biased("down"))(hidden)
        return y if self.down_multiplier == 1.0 else Scale("down_multiplier", self.down_multiplier)(y)

    def _bounded(self, gate: Tensor, where: str) -> Tensor:
        """The gate, bounded from above if that is done here."""
        if self.limit is None or self.limit_on != where:
            return gate
        bounded: Tensor = Clip("gate_clip", self.limit, from_below=False)(gate)
        return bounded

    def _sparse(self, gate: Tensor) -> Tensor:
        """The gate, with `sparsity` its largest values alone."""
        if not self.sparsity:
            return gate
        from archcli.ops import GaussianTopK  # rare: Gemma 3n

        kept: Tensor = GaussianTopK("gate_sparsity", self.sparsity)(gate)
        return kept

    def _biased(self, which: Branch) -> bool:
        return self.bias if isinstance(self.bias, bool) else which in self.bias


def caches(ffn: FeedForward | None, cache: Cache) -> tuple[Cache, Cache]:
    """The mixer's part of a layer's cache, and that of a network that carries a state."""
    carries = ffn is not None and ffn.keeps_state
    # a pair where the network carries a state; None and () mean the same to both
    of_mixer, of_ffn = cache if carries and cache else (cache, cache)
    return of_mixer, of_ffn


def feed(
    ffn: FeedForward, x: Tensor, cache: Cache, kept: Cache, ids: Tensor | None = None
) -> tuple[Tensor, Cache]:
    """The network's output for x, and what the layer keeps: beside the mixer's, the network's state.

    `ids` are those of the tokens, for a network that reads them.
    """
    if ffn.reads_ids:
        return ffn(x, ids, name="ffn"), kept
    if not ffn.keeps_state:
        return ffn(x, name="ffn"), kept
    y, state = ffn(x, cache, name="ffn")
    return y, None if cache is None else (kept, state)


def _normalized(hidden: Tensor, norm: Norm | None) -> Tensor:
    return hidden if norm is None else norm(hidden, name="inner_norm")
