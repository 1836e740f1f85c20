"""Rules of recurrent layers and hybrids: what states can hold, and how many layers attend."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from archcli.graph import StateKind
from archcli.measure.passes import cache_pass
from archcli.modules.spec.request import Request
from archcli.rules.base import Case, DesignRule, Finding, Severity, example, mixed_example

SSD = "{{kind: mamba2, n_heads: {}, head_dim: {}, state: {}, n_groups: {}, chunk: {}, conv_kernel: {}}}"
SOUND = SSD.format(16, 64, 128, 1, 256, 4)
ATTENTION = "{kind: gqa, n_heads: 8, n_kv_heads: 2, head_dim: 64}"
BITS = 16
"""Of an element in bf16 or fp16."""
# attention's share of the layers of hybrids; wider than observed in presets
LEAST_SHARE, MOST_SHARE = 1 / 12, 1 / 2


class StateBelowContext(DesignRule):
    """The states of a model without full attention hold as many bits as its context has."""

    code = "REC001"
    severity = Severity.WARNING
    title = "the cache holds fewer bits than the context"
    reason = (
        "A model whose cache does not grow repeats from its context what its states hold, and no more: "
        "with fewer bits than max_seq_len x log2(vocab_size) it fails on most texts of that length. Above "
        "that bound recall still rises with the size of the state."
    )
    source = (
        "Jelassi et al., arXiv:2402.01032 Corollary 2.8: mem(S) < L log(D) - 1 (secondary); recall against "
        "the size of the state: Arora et al., arXiv:2402.18668 abstract (confirmed)"
    )
    spares = "models with a layer that caches every token, models without max_seq_len or recurrent layers"
    counts = True
    valid = (
        mixed_example(SOUND),
        mixed_example(SSD.format(1, 8, 8, 1, 256, 4), ATTENTION),
        mixed_example(SSD.format(1, 8, 8, 1, 256, 4), max_seq_len=""),
        example(),
    )
    invalid = (mixed_example(SSD.format(1, 8, 8, 1, 256, 4)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a decoder whose states, windows included, hold fewer bits than its context."""
        context, first = case.model.max_seq_len, next(iter(case.recurrences), None)
        if context is None or first is None or not case.model.caches:
            return
        counted = cache_pass(case.model, Request("prefill", 1, context))
        # a cache that grows with the tokens holds all of them
        if any(state.kind is StateKind.TOKENS for row in counted.rows for state in row.states):
            return
        # the bits of a text whose tokens are drawn evenly: L log2(V)
        held, needed = BITS * counted.cached(), round(context * log2(case.model.vocab_size))
        if held < needed:
            message = f"{held:,} bits of states (bf16), and {context:,} tokens have {needed:,}"
            yield Finding(first[0], message, held, f"{needed:,} or more, or a layer of attention")


class AttentionShare(DesignRule):
    """The share of attention layers in a hybrid is near that of published hybrids."""

    code = "REC002"
    severity = Severity.INFO
    title = "the share of attention layers is not that of published hybrids"
    year = 2025
    reason = (
        "Of the layers that mix tokens, published hybrids have attention in 1 of 11 (Bamba) to 1 of 3: "
        "Granite 4 1 of 10, Jamba and MiniMax-01 1 of 8, Nemotron-H 1 of 7, Qwen3-Next and Kimi Linear 1 "
        "of 4, LFM2 3 of 8. Fewer recall less; with more, the cache is that of a model of attention."
    )
    source = (
        "Jamba, arXiv:2403.19887 (1 of 8), Nemotron-H, arXiv:2504.03624 (4 attention, 24 Mamba-2 and 24 "
        "networks in 52 layers, which are its 8%) and the others (their configs, confirmed); Waleffe et "
        "al., arXiv:2406.07887: loss was least near 8% of all layers (not checked)"
    )
    spares = "models without recurrent layers or without attention, layers that have both side by side"
    evidence = "attention_share"
    valid = (
        mixed_example(SOUND, SOUND, SOUND, ATTENTION),
        mixed_example(SOUND),
        mixed_example(f"{{kind: parallel, branches: [{ATTENTION}, {SOUND}]}}"),
        example(),
    )
    invalid = (
        mixed_example(*[SOUND] * 15, ATTENTION, n_layers=16),
        mixed_example(SOUND, ATTENTION, ATTENTION, ATTENTION),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a hybrid whose share lies outside of 1 in 12 to 1 in 2, wider than the observed range."""
        facts = [(layer.times, layer.block.facts(case.model.d_model)) for layer in case.layers]
        mixing = [(times, fact) for times, fact in facts if fact.kind is not None]
        first = next(iter(case.recurrences), None)
        attending = sum(times for times, fact in mixing if fact.has_scores)
        has_attention = any(fact.has_scores and fact.recurrence is not None for _, fact in mixing)
        if first is None or not attending or has_attention:
            return
        layers = sum(times for times, _ in mixing)
        share = attending / layers
        if not LEAST_SHARE <= share <= MOST_SHARE:
            message = f"{attending:,} of {layers:,} layers that mix tokens attend, {share:.1%}"
            yield Finding(first[0], message, share, "from 1 in 12 to 1 in 2")
