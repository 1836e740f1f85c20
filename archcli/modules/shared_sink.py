"""A mixture whose shared experts are scored with the others, and take their share of the weights.

B batch, T new tokens, D d_model, E experts, k experts per token, S shared experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from archcli.graph import Experts, Tensor
from archcli.modules.base import Conflict, Positive, Size
from archcli.modules.ffn import FeedForward
from archcli.modules.moe import SHARED, too_many_visits
from archcli.ops import Add, Combine, Dispatch, Linear, RouteBesideShared


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
        chosen = self._weighed(x, weights, index, "experts", Experts(self.n_experts, self.top_k))
        beside = self._weighed(x, shares, every, "shared", Experts(self.n_shared, self.n_shared))
        y: Tensor = Add("add_shared")(chosen, beside)
        return y

    def _weighed(self, x: Tensor, weights: Tensor, index: Tensor, name: str, experts: Experts) -> Tensor:
        """The weighted sum of the experts of these indices."""
        group = SHARED if name == "shared" else "experts"
        tokens, expert_of, order = Dispatch(f"{name}_dispatch")(x, index)
        routed = self.expert(tokens, name=name, group=group, experts=experts, index=expert_of)
        y: Tensor = Combine(f"{name}_combine")(routed, weights, order)
        return y

    def check(self) -> Iterator[Conflict]:
        """Conflicts: more experts per token than there are; experts that are mixtures or carry a state."""
        yield from super().check()
        if self.top_k > self.n_experts:
            yield too_many_visits(self.top_k, self.n_experts)
        if self.expert.keeps_state or getattr(self.expert, "n_experts", None) is not None:
            what = "an expert can neither be a mixture nor carry a state from token to token"
            yield Conflict("shared-sink-expert", "expert", what, "use kind mlp or glu")
