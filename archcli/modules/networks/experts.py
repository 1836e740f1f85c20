"""Mixture of experts: a router sends each token to k of E feed-forward networks.

B batch, T new tokens, D d_model, E experts, k experts per token, S shared experts. The experts' weights are
stacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from archcli.arith import Number, part_of
from archcli.errors import ArchError
from archcli.graph import Experts, Tensor
from archcli.modules.networks.ffn import SHARED, FeedForward
from archcli.modules.networks.norm import Norm
from archcli.modules.spec.base import Conflict, Inline, Positive, Size
from archcli.ops import (
    Activate,
    Add,
    Linear,
    Multiply,
    Parameter,
    Route,
    RouteBesideShared,
    Scale,
    Softcap,
)
from archcli.ops.mixtures.route import GroupScore, RankedBy, Scores


def too_many_visits(top_k: int, n_experts: int) -> Conflict:
    """The conflict of a router that chooses more experts for a token than there are."""
    what = f"top_k {top_k} is more than n_experts {n_experts}"
    return Conflict("top-k-within-experts", "top_k", what, "a token cannot visit an expert twice")


class Router(Inline):
    """Scores the experts for a token and weighs the chosen k. Shazeer et al. 2017, arXiv:1701.06538.

    `scores` softmax over all E (Mixtral, arXiv:2401.04088), sigmoid (DeepSeek-V3), or softmax_after: over the
    chosen k alone (gpt-oss). `normalized` divides the k weights by their sum; `scale` multiplies them.
    `correction` adds a stored, untrained bias when choosing, not when weighing (arXiv:2412.19437). With
    `n_groups`, only experts of the best `top_k_groups` groups are eligible, a group's worth being its best
    expert (max, DeepSeek-V2) or its best two (top2, DeepSeek-V3). `bias` biases the logits, `softcap` bounds
    them by c tanh(z/c) (Laguna). `ranked_by` logits chooses by logit plus correction in place of the score
    (Kolibri). `correction_is` parameter counts the correction bias as a frozen parameter (ERNIE 4.5). Scores
    sparsemixer choose one expert after the other, each weighed by its share of a softmax over the experts
    about as good, by `jitter` (Phi-3.5-MoE, arXiv:2409.12136). `norm` normalizes what the router reads, which
    is then divided by sqrt(D); `expert_scale` multiplies the weights by a trained number of each expert
    (Gemma 4). `zero_experts` Z more may be chosen, which return the token as it is and compute nothing
    (LongCat-Flash, arXiv:2509.01322). Scores sqrtsoftplus are sqrt(softplus(z)). `token_table` V stores which
    k experts each of V ids visits, in place of a choice; scores weigh them (hash layers, arXiv:2106.04426;
    DeepSeek-V4). `multiplier` is a constant factor on the logits before the scores (Muse Spark).
    """

    group: ClassVar[str] = "router"
    scores: Scores = "softmax"
    normalized: bool = True
    scale: Positive = 1.0
    correction: bool = False
    n_groups: Size = 1
    top_k_groups: Size = 1
    group_score: GroupScore = "max"
    bias: bool = False
    softcap: Positive | None = None
    ranked_by: RankedBy = "scores"
    correction_is: Literal["buffer", "parameter"] = "buffer"
    jitter: Positive = 0.01
    norm: Norm | None = None
    expert_scale: bool = False
    zero_experts: Size | None = None
    token_table: Size | None = None
    multiplier: Positive = 1.0

    def forward(
        self, x: Tensor, n_experts: int, top_k: int, ids: Tensor | None = None, *, name: str
    ) -> tuple[Tensor, Tensor]:
        """Weights and expert indices, [B, T, k] each, for tokens x [B, T, D]; zero experts are the last."""
        n_experts = n_experts if self.zero_experts is None else n_experts + self.zero_experts
        if self.norm is not None:
            x = self.norm(x, name=f"{name}_norm", group=self.group)
            # Gemma4TextRouter divides by sqrt(D) behind its norm
            x = Scale(f"{name}_norm_scale", x.shape[-1] ** -0.5)(x)
        logits = Linear(name, n_experts, self.bias)(x)
        if self.multiplier != 1.0:
            logits = Scale(f"{name}_multiplier", self.multiplier)(logits)
        if self.softcap is not None:
            logits = Softcap(f"{name}_softcap", self.softcap)(logits)
        if self.token_table is not None:
            return self._by_token(logits, ids, top_k, self.token_table)
        # ERNIE 4.5's e_score_correction_bias is a frozen nn.Parameter, that of others a buffer
        borrowed = self.correction and self.correction_is == "parameter"
        op = Route(
            "route",
            top_k,
            self.scores,
            self.normalized,
            self.scale,
            self.correction and not borrowed,
            self.n_groups,
            self.top_k_groups,
            self.group_score,
            self.ranked_by,
            self.jitter,
        )
        bias = (x.tape.weight(Parameter("correction", (n_experts,)), x, trained=False),) if borrowed else ()
        weights, index = op(logits, *bias)
        if self.expert_scale:
            from archcli.ops import ScaleChosen  # rare: Gemma 4

            weights = ScaleChosen("expert_scale", n_experts)(weights, index)
        return weights, index

    def _by_token(
        self, logits: Tensor, ids: Tensor | None, top_k: int, entries: int
    ) -> tuple[Tensor, Tensor]:
        """Weights of the experts that the table states for each id."""
        from archcli.ops import RouteByToken  # rare: DeepSeek-V4

        if ids is None:
            what = "a token_table is read by the ids of tokens, which a decoder alone hands to its layers"
            raise ArchError(what, "use kind decoder, or leave token_table out")
        op = RouteByToken("route", top_k, self.scores, self.normalized, self.scale, entries=entries)
        weights, index = op(logits, ids)
        return weights, index


HAND_IDS_ON = ("hyper", "low_rank_hyper")
"""Kinds of blocks that give the ids of tokens to their network."""


class MixtureOfExperts(FeedForward):
    """sum over the chosen k experts of weight * expert(x), plus shared(x) for every token.

    Shazeer et al. 2017, arXiv:1701.06538; shared experts: DeepSeekMoE, arXiv:2401.06066.

    All experts have the one shape `expert`; `shared` left out means none; `shared_gate` multiplies its output
    by sigmoid(w x), one gate per token (Qwen2-MoE, arXiv:2407.10671). `weigh` input multiplies an expert's
    input by its weight in place of the output (Llama 4, top_k 1). `combination` mean halves what routed and
    shared experts add up to (Command A+); `out_norm` normalizes the result (A.X K1), `out_bias` adds a bias
    to it (JetMoE, arXiv:2404.07413). With `latent` L the experts work on tokens projected to width L, and
    what they add up to is projected back to D; router and shared experts see the tokens as they are
    (Nemotron 3 Super). `latent_bias` biases both projections. `expert_norm` normalizes what the routed
    experts read, not what the router reads (Gemma 4). `latent_norm` normalizes tokens of width L, and
    `expert_out_norm` what each chosen expert returns before it is weighed, by one gain for all experts (Muse
    Spark).
    """

    title: ClassVar[str] = "Mixture of experts"
    short_title: ClassVar[str] = "mixture"
    kind: Literal["moe"] = "moe"
    n_experts: Size
    top_k: Size
    expert: FeedForward
    router: Router = Router()
    shared: FeedForward | None = None
    shared_gate: bool = False
    weigh: Literal["output", "input"] = "output"
    combination: Literal["sum", "mean"] = "sum"
    out_norm: Norm | None = None
    out_bias: bool = False
    latent: Size | None = None
    latent_bias: bool = False
    expert_norm: Norm | None = None
    latent_norm: Norm | None = None
    expert_out_norm: Norm | None = None

    @property
    def reads_ids(self) -> bool:
        """Whether its router goes by the ids of the tokens."""
        return self.router.token_table is not None

    def forward(self, x: Tensor, ids: Tensor | None = None) -> Tensor:
        """Route, dispatch, run the experts, combine; `ids` [B, T] for a router with a table of them."""
        weights, index = self.router(x, self.n_experts, self.top_k, ids, name="router")
        read = x if self.expert_norm is None else self.expert_norm(x, name="expert_norm")
        read = read if self.latent is None else Linear("latent_down", self.latent, self.latent_bias)(read)
        read = read if self.latent_norm is None else self.latent_norm(read, name="latent_norm")
        gated = read if self.weigh == "output" else Multiply("weighted_input")(read, weights)
        y = self._routed(gated, weights, index)
        if self.latent is not None:
            y = Linear("latent_up", x.shape[-1], self.latent_bias)(y)
        if self.shared is not None:
            y = Add("add_shared")(y, self._shared(x, self.shared))
        if self.combination == "mean":
            y = Scale("mean", 0.5)(y)
        y = y if self.out_norm is None else self.out_norm(y, name="out_norm")
        if self.out_bias:
            y = Add("out_bias_add", meets=False)(y, Parameter("out_bias", (x.shape[-1],))(x))
        return y

    def _routed(self, x: Tensor, weights: Tensor, index: Tensor) -> Tensor:
        """The weighted sum over the chosen experts of tokens x [B, T, D]."""
        if self.router.zero_experts is not None:
            return self._beside_zero(x, weights, index, self.router.zero_experts)
        experts = Experts(self.n_experts, self.top_k)
        weighted, norm = self.weigh == "output", self.expert_out_norm
        return self.expert.routed(x, weights, index, experts, weighted=weighted, norm=norm)

    def _beside_zero(self, x: Tensor, weights: Tensor, index: Tensor, zero: Number) -> Tensor:
        """The weighted sum with `zero` further experts, which return x."""
        from archcli.ops import CombineReal, DispatchReal  # rare

        tokens, expert_of, order = DispatchReal("dispatch", self.n_experts, zero)(x, index)
        # an expected value: every choice is as likely to fall on any of the E + Z experts
        experts = Experts(self.n_experts, part_of(self.top_k, self.n_experts, self.n_experts + zero))
        routed = self.expert(tokens, name="experts", group="experts", experts=experts, index=expert_of)
        y: Tensor = CombineReal("combine", self.n_experts)(routed, x, weights, index, order)
        return y

    def _shared(self, x: Tensor, shared: FeedForward) -> Tensor:
        y: Tensor = shared(x, name="shared", group=SHARED)
        if not self.shared_gate:
            return y
        gate = Activate("shared_gate_sigmoid", "sigmoid")(
            Linear("shared_gate", 1)(x, group=SHARED), group=SHARED
        )
        gated: Tensor = Multiply("shared_gated")(y, gate, group=SHARED)
        return gated

    def check(self) -> Iterator[Conflict]:
        """Conflicts of routing, and of fields that need each other."""
        yield from self._check_routing()
        if self.expert.expert_counts[0] is not None or isinstance(self.shared, MixtureOfExperts):
            what = "an expert cannot itself be a mixture of experts"
            yield Conflict("expert-not-mixture", "expert", what, "use kind mlp or glu")
        for name, network in (("expert", self.expert), ("shared", self.shared)):
            if network is not None and network.keeps_state:
                what = "an expert cannot carry a state from token to token"
                yield Conflict("expert-without-state", name, what, "use kind mlp or glu")
        if self.weigh == "input" and self.top_k != 1:
            what = f"weigh input is defined for top_k 1, not {self.top_k}"
            yield Conflict("weigh-input-top-1", "weigh", what, "use weigh: output")
        if self.shared_gate and self.shared is None:
            what, hint = "shared_gate without a shared expert", "add shared, or leave shared_gate out"
            yield Conflict("shared-gate-needs-shared", "shared_gate", what, hint)
        if self.combination == "mean" and self.shared is None:
            what = "combination mean is of routed and shared experts, and there is none that is shared"
            yield Conflict("mean-needs-shared", "combination", what, "add shared, or use combination: sum")
        if self.latent_bias and self.latent is None:
            what, hint = "latent_bias without latent", "add latent, or leave latent_bias out"
            yield Conflict("latent-bias-needs-latent", "latent_bias", what, hint)
        if self.latent_norm is not None and self.latent is None:
            what, hint = "latent_norm without latent", "add latent, or leave latent_norm out"
            yield Conflict("latent-norm-needs-latent", "latent_norm", what, hint)
        if self.expert_out_norm is not None and self.router.zero_experts is not None:
            what = "expert_out_norm is not defined beside zero_experts"
            yield Conflict("expert-out-norm-plain", "expert_out_norm", what, "leave one of them out")

    def check_in(self, block: str) -> Iterator[Conflict]:
        """Conflict: a router that reads ids, in a kind of block that has none."""
        if self.reads_ids and block not in HAND_IDS_ON:
            what = "a token_table is read by the ids of tokens, which blocks on streams alone hand on"
            yield Conflict("token-table-block", "ffn.router.token_table", what, "leave it out")

    def _check_routing(self) -> Iterator[Conflict]:
        """Check that k <= E and that groups divide the E experts evenly."""
        experts, k = self.n_experts, self.top_k
        groups, chosen = self.router.n_groups, self.router.top_k_groups
        zero = self.router.zero_experts or 0
        if self.router.token_table is not None and (
            zero or groups > 1 or self.router.correction or self.router.scores == "sparsemixer"
        ):
            what = "a token_table says which experts a token visits: nothing is chosen"
            hint = "leave correction, n_groups and zero_experts out"
            yield Conflict("token-table-alone", "router.token_table", what, hint)
        if k > experts + zero:
            yield too_many_visits(k, experts)
        elif zero and (groups > 1 or self.weigh == "input" or self.router.scores == "sparsemixer"):
            what = "zero_experts are defined without groups, with weighed outputs, and not for sparsemixer"
            yield Conflict("zero-experts-plain", "router", what, "leave zero_experts out")
        elif experts % groups:
            what = f"n_experts {experts} does not fall into {groups} equal groups"
            yield Conflict("experts-divide-groups", "router", what, "mend n_groups")
        elif chosen > groups:
            what = f"top_k_groups {chosen} is more than n_groups {groups}"
            yield Conflict("top-k-groups-within-groups", "router", what, "mend top_k_groups")
        elif self.router.scores == "sparsemixer" and (groups > 1 or self.router.correction):
            what = "sparsemixer has neither groups nor a correction"
            yield Conflict("sparsemixer-alone", "router", what, "leave n_groups and correction out")
        elif k > chosen * (experts // groups):
            what = f"top_k {k} is more than the experts of {chosen} groups"
            yield Conflict("top-k-within-groups", "top_k", what, "raise top_k_groups")


class SharedSinkExperts(FeedForward):
    """sum over the chosen k of E experts and over all S shared ones of weight * expert(x).

    Inkling (Thinking Machines).

    A router gives each of the E + S experts a sigmoid score; `n_shared` is S. The k best of the E are chosen
    by score plus a stored, untrained correction bias. Weights are the k + S scores divided by their sum,
    times `scale`, times a trained number: what the shared experts take, the chosen lack. All have the shape
    `expert`.
    """

    kind: Literal["shared_sink_moe"] = "shared_sink_moe"
    n_experts: Size
    n_shared: Size
    top_k: Size
    expert: FeedForward
    scale: Positive = 1.0

    def forward(self, x: Tensor) -> Tensor:
        """Route, run the chosen and the shared experts, add them up."""
        logits = Linear("router", self.n_experts + self.n_shared)(x, group="router")
        route = RouteBesideShared("route", self.top_k, self.n_shared, self.scale)
        weights, index, shares, every = route(logits, group="router")
        experts = Experts(self.n_experts, self.top_k)
        chosen = self.expert.routed(x, weights, index, experts, step="experts")
        # every token visits all S shared experts: top_k is S
        experts = Experts(self.n_shared, self.n_shared)
        shared = self.expert.routed(x, shares, every, experts, step="shared")
        y: Tensor = Add("add_shared")(chosen, shared)
        return y

    def check(self) -> Iterator[Conflict]:
        """Conflicts: more experts per token than there are; experts that are mixtures or carry a state."""
        yield from super().check()
        if self.top_k > self.n_experts:
            yield too_many_visits(self.top_k, self.n_experts)
        if not self.expert.can_be_expert:
            what = "an expert can neither be a mixture nor carry a state from token to token"
            yield Conflict("shared-sink-expert", "expert", what, "use kind mlp or glu")
