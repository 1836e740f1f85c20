"""Rules of the vocabulary and its tables."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.rules.base import Case, DesignRule, Finding, Fix, Severity, example

SMALL, LARGE_SHARE = 1_500_000_000, 0.2
"""Tying is usual below SMALL parameters, and reported where the tables are more than LARGE_SHARE of them."""


class VocabularySize(DesignRule):
    """vocab_size is between 30,000 and 270,000 entries."""

    code = "VOC001"
    severity = Severity.INFO
    title = "vocab_size is outside the range of published tokenizers"
    reason = (
        "Monolingual models have 30,000 to 50,000 entries, multilingual and production ones 100,000 to "
        "250,000, Gemma 3 262,144; not that all with 32,000 are monolingual. Fewer than 256 cannot spell "
        "every byte."
    )
    source = (
        "CS336 lecture 3 (Spring 2026) p.47, a rule of thumb (slide); sizes of shipped models from their "
        "configs (confirmed)"
    )
    evidence = "vocab_size"
    valid = (example(vocab_size="32000"), example(vocab_size="262144"))
    invalid = (example(vocab_size="8192"), example(vocab_size="1048576"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a vocabulary below 30,000 or above 270,000."""
        size = case.model.vocab_size
        if not (30_000 <= size <= 270_000 or case.model.media):
            yield Finding("vocab_size", f"vocab_size {size:,}", size, "30,000 to 270,000")


class TieSmallEmbeddings(DesignRule):
    """Small models share the input table with the output head."""

    code = "VOC002"
    severity = Severity.INFO
    title = "a small model with two token tables"
    reason = (
        "In a small model the token tables are a large share of all parameters; tying input and output saves "
        "one of them."
    )
    source = (
        "Press & Wolf, arXiv:1608.05859 (not checked); GPT-2, Gemma, Qwen3-0.6B and Llama-3.2-1B tie (their "
        "configs)"
    )
    spares = (
        "models of 1.5 billion parameters and more, models without a head, and tables below a fifth of all "
        "parameters"
    )
    counts = True
    valid = (example(), example(vocab_size="2000", embedding="{tied: false}"))
    invalid = (example(embedding="{tied: false}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report untied tables that are more than a fifth of a small model."""
        head, totals = case.model.output_head, case.totals
        can_tie = head is not None and head.ties and not case.model.embedding.tied
        if not can_tie or totals["params"] >= SMALL:
            return
        # an untied head is the second table; embedding_params holds the first
        second = totals["by_group"].get("lm_head", 0)
        share = (second + totals["embedding_params"]) / totals["params"]
        if share > LARGE_SHARE:
            message = f"tied false: embedding and head are {share:.0%} of {totals['params']:,} parameters"
            help_, fixes = f"embedding.tied=true saves {second:,}", (Fix("embedding.tied", True),)
            yield Finding("embedding.tied", message, share, "tied, or below 20%", help_, fixes)
