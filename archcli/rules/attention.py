"""Rules of attention: heads, groups, windows, latents. Limits of kernels: see `kernels.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.errors import Problem
from archcli.measure.kvcache.variants import to_gqa, to_mqa
from archcli.modules import (
    Attention,
    Model,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    substitute,
)
from archcli.modules.attention.mixer import mixers
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.rules.base import (
    DIVISOR,
    Case,
    DesignRule,
    Finding,
    Fix,
    Severity,
    cached_bytes,
    example,
    nearest_divisor,
)

GQA = "{{kind: gqa, n_heads: {}, n_kv_heads: {}, head_dim: 64, position: {{kind: rope, theta: 10000}}}}"
MHA = "{kind: mha, n_heads: 8, position: {kind: rope, theta: 10000}"
MLA = (
    "{{kind: mla, n_heads: 8, q_lora_rank: {}, kv_lora_rank: {}, qk_nope_head_dim: 64, qk_rope_head_dim: 32, "
    "v_head_dim: 64, position: {{kind: rope, theta: 10000}}}}"
)
LARGE, LONG = 6_500_000_000, 8192
"""Parameters and context from which models have grouped queries: Llama 3, Mistral, Qwen2, Gemma 2."""


class KvHeadsDivideHeads(DesignRule):
    """n_kv_heads divides n_heads."""

    code = "ATT001"
    severity = Severity.ERROR
    title = "n_kv_heads does not divide n_heads"
    reason = (
        "Every kv head serves a group of n_heads / n_kv_heads query heads; with a remainder there is no such "
        "group, and kernels refuse it."
    )
    source = (
        "GQA, arXiv:2305.13245 section 2.2 (id confirmed); FlashAttention's README asks the same (confirmed)"
    )
    valid = (example(attention=GQA.format(8, 2)),)
    invalid = (example(attention=GQA.format(8, 3)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every grouped attention, cross attention too, whose n_kv_heads does not divide n_heads."""
        for path, attention in find(case.model, Attention):
            heads, groups = (attention.value_of(name) for name in ("n_heads", "n_kv_heads"))
            if heads and groups and heads % groups:
                best = nearest_divisor(heads, groups, case.parallel.tp)
                where = f"{path}.n_kv_heads"
                message = f"n_kv_heads {groups} does not divide n_heads {heads}"
                fixes = (Fix(where, best),)
                yield Finding(where, message, groups, f"a divisor of {heads}", fixes=fixes, cause=DIVISOR)

    def reports_conflict(self, conflict: Problem) -> bool:
        """Whether the modules found the conflict that this rule reports: n_kv_heads not dividing n_heads."""
        return conflict.code == "kv-heads-divide-heads"


class GroupQueries(DesignRule):
    """Large models with a long context share keys and values between heads."""

    code = "ATT005"
    severity = Severity.WARNING
    title = "multi-head attention in a large model with a long context"
    year = 2025
    reason = (
        "From some 7 billion parameters and 8,192 tokens on, the cache of full multi-head attention is what "
        "bounds a batch; grouped queries keep quality close to it."
    )
    source = (
        "GQA, arXiv:2305.13245 abstract (confirmed); Llama 2 70B and later, Mistral, Qwen2, Gemma 2 (their "
        "configs)"
    )
    spares = "models below 6.5 billion parameters or of a context below 8,192, encoders, latent attention"
    counts = True
    known: ClassVar[Mapping[str, str]] = {
        "command-r-v01": (
            "64 heads with keys and values of their own, as its config says, at 8,192 tokens and beyond"
        ),
        **dict.fromkeys(
            (
                *("dots.llm1", "gemma-7b", "mpt-30b", "olmo-3-7b"),
                *("olmo-hybrid-7b", "persimmon-8b", "qwen1.5-moe-a2.7b", "qwen2-audio-7b"),
            ),
            "every head has keys and values of its own, as its config says",
        ),
    }
    valid = (
        example(),
        example(
            d_model="8192",
            n_layers="64",
            max_seq_len="4096",
            attention="{kind: mha, n_heads: 64, position: {kind: rope, theta: 10000}}",
        ),
    )
    invalid = (
        example(
            d_model="4096",
            n_layers="64",
            max_seq_len="8192",
            ffn="{kind: glu, d_ff: 11008}",
            attention="{kind: mha, n_heads: 32, position: {kind: rope, theta: 10000}}",
        ),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report causal MHA in a large model with a long context, and the cache that GQA would save."""
        model, context = case.model, case.model.max_seq_len or 0
        if context < LONG or case.totals["params"] < LARGE:
            return
        for path, attention in find(model, MultiHeadAttention):
            heads = attention.n_heads
            if attention.causal and heads > 1:
                groups, saved = _grouped(model, path, attention)
                fixes = (Fix(f"{path}.kind", "gqa"), Fix(f"{path}.n_kv_heads", groups))
                message = f"n_heads {heads}, each with its own keys and values"
                yield Finding(f"{path}.kind", message, heads, "kind gqa", saved, fixes)


def _grouped(model: Model, path: str, attention: Attention) -> tuple[int, str]:
    """(suggested n_kv_heads, message on the cache that it saves)."""
    facts, context = attention.facts(model.d_model), model.max_seq_len or 0
    grouped = to_gqa(facts)
    # to_gqa takes up to 8 kv heads: with 8 heads or fewer it may change nothing
    groups = grouped.n_kv_heads if grouped.n_kv_heads < attention.n_heads else 1
    smaller = substitute(model, {path: grouped if groups > 1 else to_mqa(facts)})
    now, then = cached_bytes(model, context) / 2**30, cached_bytes(smaller, context) / 2**30
    saved = f"would save {now - then:.3g} of {now:.3g} GiB of cache (bf16, {context:,} tokens)"
    return groups, f"n_kv_heads {groups} {saved}"


class WindowBeyondContext(DesignRule):
    """A window is narrower than the context."""

    code = "ATT006"
    severity = Severity.WARNING
    title = "a window that is not below max_seq_len"
    reason = (
        "A window that no sequence outgrows masks nothing; kernels may still take the slower path for it."
    )
    source = (
        "Mistral 7B, arXiv:2310.06825 (id confirmed), its config: a window of 4,096 in a context of 32,768"
    )
    spares = "files without max_seq_len"
    known: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("ministral-8b", "phi-3.5-moe", "phi-4-mini"),
            "a window as long as the context, as its config says",
        ),
    }
    valid = (example(attention=f"{MHA}, window: 1024}}"),)
    invalid = (example(attention=f"{MHA}, window: 4096}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every window or chunk of at least max_seq_len."""
        context = case.model.max_seq_len
        for path, mixer in mixers(case.model):
            facts = mixer.facts()
            for name, width in (("window", facts.window), ("chunk", facts.chunk)):
                if context is not None and width is not None and width >= context:
                    message = f"{name} {width:,} with max_seq_len {context:,} masks nothing"
                    yield Finding(f"{path}.{name}", message, width, f"below {context:,}", f"leave {name} out")


class NoGlobalLayer(DesignRule):
    """At least one layer sees the whole context."""

    code = "ATT007"
    severity = Severity.INFO
    title = "no layer sees the whole context"
    reason = (
        "With windows only, what is far away passes on from layer to layer. Gemma 2 has a full layer in "
        "every two, Gemma 3 in every six; Mistral 7B v0.1 had none."
    )
    source = (
        "Gemma 2, arXiv:2408.00118 section 2 (1 in 2); Gemma 3, arXiv:2503.19786 section 2 (1 in 6) (as its "
        "documentation says, too)"
    )
    spares = "stacks in which some layer has neither window nor chunk, or sees blocks of all earlier tokens"
    valid = (example(), example(attention=f"{MHA}}}"))
    invalid = (example(attention=f"{MHA}, window: 1024}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every stack whose layers all have a window or a chunk."""
        for stem, _ in stacks(case.model):
            mixers = [(path, facts) for path, facts in case.mixers if path.startswith(f"{stem}groups.")]
            # 0: this layer sees everything
            widths = [0 if facts.blocks_of else facts.window or facts.chunk or 0 for _, facts in mixers]
            if widths and all(widths):
                path, facts = mixers[0]
                name = "window" if facts.window else "chunk"
                message = f"{name} {max(widths):,} at most in every layer: none sees the whole context"
                yield Finding(f"{path}.{name}", message, max(widths), "a layer without it")


class LatentRanks(DesignRule):
    """kv_lora_rank and q_lora_rank compress, and are at least as wide as one head."""

    code = "ATT008"
    severity = Severity.WARNING
    title = "kv_lora_rank or q_lora_rank compresses nothing, or too much"
    reason = (
        "MLA caches kv_lora_rank + qk_rope_head_dim elements in place of keys and values of all heads, and "
        "pays a second product for it; a rank as large as those saves nothing. A rank below the width of one "
        "head leaves every head less than its width. DeepSeek-V2 has four times a head: 512 for 128."
    )
    source = (
        "DeepSeek-V2, arXiv:2405.04434 section 2.1.4 and Table 1: 576 elements against 32,768 (confirmed)"
    )
    valid = (example(attention=MLA.format(256, 128)),)
    invalid = (
        example(attention=MLA.format(256, 1024)),
        example(attention=MLA.format(1024, 128)),
        example(attention=MLA.format(256, 32)),
        example(attention=MLA.format(64, 128)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every latent no wider than one head, or as wide as all heads (queries: d_model)."""
        for path, mla in find(case.model, MultiHeadLatentAttention):
            kv, q = mla.kv_lora_rank, mla.q_lora_rank
            least = max(mla.qk_nope_head_dim, mla.v_head_dim)
            most = mla.n_heads * (mla.qk_nope_head_dim + mla.v_head_dim)
            if not least <= kv < most:
                message = f"kv_lora_rank {kv:,}; a head has {least:,} elements, keys and values {most:,}"
                yield Finding(f"{path}.kv_lora_rank", message, kv, _range(least, most))
            least, most = mla.qk_nope_head_dim + (mla.qk_rope_head_dim or 0), case.model.d_model
            if q is not None and not least <= q < most:
                message = f"q_lora_rank {q:,}; a query head has {least:,} elements, d_model is {most:,}"
                help_ = "" if q < least else "leave q_lora_rank out"
                yield Finding(f"{path}.q_lora_rank", message, q, _range(least, most), help_)


def _range(least: int, most: int) -> str:
    return f"from {least:,} to below {most:,}"
