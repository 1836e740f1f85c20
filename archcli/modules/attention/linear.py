"""Linear attention: a kernel in place of the softmax, a constant state in place of a growing cache.

B batch, T new tokens, D d_model, H query heads, d head_dim, m features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from archcli.arith import Number
from archcli.graph import Tensor
from archcli.modules.attention.grouped import ProjectedHeads
from archcli.modules.attention.mixer import MixerFacts, RecurrenceFacts
from archcli.modules.spec.base import Conflict, Size
from archcli.modules.spec.context import Context, or_default
from archcli.modules.spec.request import SCAN, Forms
from archcli.ops import FeatureMap, Linear, LinearAttend, MergeHeads


class LinearAttention(ProjectedHeads):
    """out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j), j up to i where causal.

    O(n) in time, O(1) in state.

    `features` elu: phi(x) = elu(x) + 1, m = d (Katharopoulos et al. 2020, arXiv:2006.16236). softmax: m fixed
    random projections that estimate the softmax kernel (FAVOR+, Performer, Choromanski et al. 2020,
    arXiv:2009.14794). The state is [H, m, d] and [H, m] per sequence whatever its length. `chunk` tokens are
    computed at once where it is causal, unless `form` is recurrent.
    """

    title: ClassVar[str] = "Linear attention"
    short_title: ClassVar[str] = "linear attention"
    kind: Literal["linear"] = "linear"
    forms: ClassVar[Forms | None] = SCAN
    features: Literal["elu", "softmax"] = "elu"
    n_features: Size | None = None
    chunk: Size = 64
    form: Literal["auto", "chunked", "recurrent"] = "auto"

    def facts(self, d_model: Number | None = None) -> MixerFacts:
        """As of attention, and the state of a causal one."""
        facts = super().facts(d_model)
        if not self.causal:
            return facts
        # elu maps a head to as many features as it is wide, whatever n_features says
        m = facts.head_dim if self.n_features is None or self.features == "elu" else self.n_features
        state = RecurrenceFacts(self.n_heads, m, facts.v_head_dim, self.n_heads, self.chunk)
        return replace(facts, recurrence=state)

    @property
    def kv_heads(self) -> Number:
        """H."""
        return self.n_heads

    def forward(self, x: Tensor, context: Context | None = None) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """[B, T, D] to [B, T, D]; the cache holds the two sums."""
        context = or_default(x, context)
        d = self.width(x.shape[-1])
        table = context.rotary or self.table(context.positions, x.shape[-1], "rotary", x)
        q = self._featured(self._placed(self._heads(x, "q", self.n_heads, d), "q", table), "q", d)
        k = self._featured(self._placed(self._heads(x, "k", self.n_heads, d), "k", table), "k", d)
        v = self._heads(x, "v", self.n_heads, d if self.v_head_dim is None else self.v_head_dim)
        op = LinearAttend("attend", self.causal, context.cache is not None, self.chunk, self.form)
        mixed, *state = op(q, k, v, *(context.cache or ()))
        return Linear("o_proj", x.shape[-1], self._biased("o"))(
            MergeHeads("merge")(mixed)
        ), None if context.cache is None else tuple(state)

    def check(self) -> Iterator[Conflict]:
        """Conflict: a position that biases scores, which linear attention does not have."""
        yield from super().check()
        if self.position.acts_on in {"keys", "scores"}:
            yield Conflict(
                "no-score-bias",
                "position",
                "a bias on scores, of which linear attention has none",
                "use rope, or what is added to the embedding",
            )

    def _featured(self, x: Tensor, which: str, d: Number) -> Tensor:
        m = d if self.n_features is None else self.n_features
        features: Tensor = FeatureMap(f"{which}_features", self.features, m, which == "q")(x)
        return features
