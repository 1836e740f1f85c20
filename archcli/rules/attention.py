"""Rules of attention: heads, groups, windows, latents."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.passes import find
from archcli.modules import GroupedQueryAttention
from archcli.rules.base import Case, Finding, Fix, Rule, Severity, example

GQA = "{{kind: gqa, n_heads: {}, n_kv_heads: {}, head_dim: 64, position: {{kind: rope, theta: 10000}}}}"


class KvHeadsDivideHeads(Rule):
    """n_kv_heads divides n_heads."""

    code = "ATT001"
    severity = Severity.ERROR
    title = "n_kv_heads does not divide n_heads"
    reason = "Every kv head serves a group of n_heads / n_kv_heads query heads; with a remainder there is no such group, and kernels refuse it."
    source = "GQA, arXiv:2305.13245 section 2.2; FlashAttention-2's README asks the same (confirmed)"
    claims = frozenset({"n_kv_heads"})
    valid = (example(attention=GQA.format(8, 2)),)
    invalid = (example(attention=GQA.format(8, 3)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every grouped attention with a remainder."""
        for path, attention in find(case.model, GroupedQueryAttention):
            heads, groups = attention.n_heads, attention.n_kv_heads
            if heads % groups:
                best = min((k for k in range(1, heads + 1) if heads % k == 0), key=lambda k: (abs(k - groups), -k))
                where = f"{path}.n_kv_heads"
                yield Finding(
                    where, f"{groups} kv heads do not divide {heads} heads", groups, f"a divisor of {heads}", fixes=(Fix(where, best),)
                )
