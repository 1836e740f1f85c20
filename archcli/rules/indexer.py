"""Rules of indexers, which choose the keys that attention reads."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.rules.base import Case, DesignRule, Finding, Severity, example

GQA = (
    "{{kind: gqa, n_heads: 8, n_kv_heads: 2, head_dim: 64, position: {{kind: rope, theta: 10000}}, "
    "index: {{top_k: {}, n_heads: 16, head_dim: 64}}}}"
)


class IndexBelowContext(DesignRule):
    """An index chooses fewer keys than the context has."""

    code = "ATT010"
    severity = Severity.WARNING
    title = "index.top_k is not below max_seq_len"
    reason = (
        "An indexer scores every earlier token to choose the top_k that attention reads. Where top_k is the "
        "whole context, nothing is left out: the scores and the cached index keys come on top of attention "
        "to all tokens."
    )
    source = "DeepSeek-V3.2, arXiv:2512.02556: 2,048 of up to 163,840 tokens (config.json, confirmed)"
    valid = (example(attention=GQA.format(256)), example())
    invalid = (example(attention=GQA.format(2048)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every layer whose index chooses as many keys as the longest context has."""
        context = case.model.max_seq_len
        for path, facts in case.mixers:
            if facts.indexed is not None and context is not None and facts.indexed >= context:
                message = f"top_k {facts.indexed:,} of a context of {context:,}: every key is read"
                yield Finding(f"{path}.index.top_k", message, facts.indexed, f"below {context:,}")
