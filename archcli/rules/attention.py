"""Rules of attention: heads, groups, windows, latents, and what fused kernels take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.measure.passes import find
from archcli.modules import Attention, GroupedQueryAttention, MultiHeadAttention, MultiHeadLatentAttention, ProjectedAttention
from archcli.rules.base import Case, Finding, Fix, Rule, Severity, example

GQA = "{{kind: gqa, n_heads: {}, n_kv_heads: {}, head_dim: 64, position: {{kind: rope, theta: 10000}}}}"
MHA = "{kind: mha, n_heads: 8, position: {kind: rope, theta: 10000}"
MLA = (
    "{{kind: mla, n_heads: 8, q_lora_rank: {}, kv_lora_rank: {}, qk_nope_head_dim: 64, qk_rope_head_dim: 32, v_head_dim: 64, "
    "position: {{kind: rope, theta: 10000}}}}"
)
LARGE, LONG = 6_500_000_000, 8192
"""Parameters and context from which grouped queries are the consensus: what Llama-3, Mistral, Qwen2 and Gemma 2 share."""
WIDEST = 256
FLASH = "FlashAttention's README: head_dim up to 256 (confirmed); torch sdp_utils.cpp: q, k and v share one head_dim up to 256 (confirmed)"


class KvHeadsDivideHeads(Rule):
    """n_kv_heads divides n_heads."""

    code = "ATT001"
    severity = Severity.ERROR
    title = "n_kv_heads does not divide n_heads"
    reason = (
        "Every kv head serves a group of n_heads / n_kv_heads query heads; with a remainder there is no such group, and kernels refuse it."
    )
    source = "GQA, arXiv:2305.13245 section 2.2; FlashAttention's README asks the same (confirmed)"
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
                message = f"{groups} kv heads do not divide {heads} heads"
                yield Finding(where, message, groups, f"a divisor of {heads}", fixes=(Fix(where, best),))


class HeadsBeyondKernels(Rule):
    """head_dim is no more than fused kernels take."""

    code = "ATT002"
    severity = Severity.WARNING
    title = "head_dim is more than fused attention takes"
    reason = "Fused attention kernels stop at heads of 256; wider ones fall back to scores written out in full, S x S of them."
    source = FLASH
    spares = "linear attention, which has no scores"
    valid = (example(attention="{kind: mha, n_heads: 2, head_dim: 256, position: {kind: rope, theta: 10000}}"),)
    invalid = (example(attention="{kind: mha, n_heads: 1, head_dim: 512, position: {kind: rope, theta: 10000}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every attention with wider heads."""
        for path, attention in find(case.model, ProjectedAttention):
            dim = attention.width(case.model.d_model)
            if dim > WIDEST and attention.kind != "linear":  # type: ignore[attr-defined]
                where = f"{path}.{'n_heads' if attention.head_dim is None else 'head_dim'}"
                yield Finding(where, f"heads {dim} wide", dim, f"at most {WIDEST}")


class UnequalHeads(Rule):
    """Queries, keys and values have one width."""

    code = "ATT003"
    severity = Severity.INFO
    title = "values are not as wide as queries and keys"
    reason = "torch's flash kernel asks for one head_dim of q, k and v; others (FlashAttention-3, FlashMLA) take some unequal pairs."
    source = f"{FLASH}; FlashAttention-3's pairs as reported (secondary)"
    valid = (example(),)
    invalid = (
        example(attention="{kind: mha, n_heads: 8, head_dim: 64, v_head_dim: 128, position: {kind: rope, theta: 10000}}"),
        example(attention=MLA.format(256, 128)),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Every attention whose values differ in width."""
        for path, attention in find(case.model, Attention):
            pair = _widths(attention, case.model.d_model)
            if pair is not None and pair[0] != pair[1]:
                yield Finding(f"{path}.v_head_dim", f"queries and keys {pair[0]} wide, values {pair[1]}", list(pair), "one width")


class SoftcapExcludesKernels(Rule):
    """Scores are not capped."""

    code = "ATT004"
    severity = Severity.INFO
    title = "a softcap on scores, which some fused kernels do not know"
    reason = (
        "torch's scaled_dot_product_attention has no argument for it; FlashAttention has since 2.6, FlexAttention can express it."
        " Gemma 3 took QK-norm in its place."
    )
    source = "Gemma 2, arXiv:2408.00118 section 2; Gemma 3, arXiv:2503.19786 section 2; FlashAttention's changelog (confirmed)"
    valid = (example(),)
    invalid = (example(attention=f"{MHA}, softcap: 50}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every capped attention."""
        for path, attention in find(case.model, Attention):
            if attention.softcap is not None:
                yield Finding(f"{path}.softcap", f"scores are capped at {attention.softcap:g}", attention.softcap, "none")


class GroupQueries(Rule):
    """Large models with a long context share keys and values between heads."""

    code = "ATT005"
    severity = Severity.WARNING
    title = "every head has keys and values of its own, at a size where groups are the consensus"
    reason = (
        "From some 7 billion parameters and 8,192 tokens on, the cache of full multi-head attention rivals the weights; grouped "
        "queries keep nearly all quality."
    )
    source = "GQA, arXiv:2305.13245 abstract (confirmed); Llama 2 70B and later, Mistral, Qwen2, Gemma 2 (their configs)"
    spares = "models below 6.5 billion parameters or of a context below 8,192, encoders, latent attention"
    counts = True
    known: ClassVar[Mapping[str, str]] = {
        "gemma-7b": "16 heads of 256 with keys and values of their own at 8,192 tokens; Gemma 2 has groups of two"
    }
    valid = (
        example(),
        example(
            d_model="8192", n_layers="64", max_seq_len="4096", attention="{kind: mha, n_heads: 64, position: {kind: rope, theta: 10000}}"
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
        """Causal attention of as many kv heads as heads in a large model; it says how many bytes groups of 8 would save."""
        context = case.model.max_seq_len or 0
        if context < LONG or case.totals["params"] < LARGE:
            return
        for path, attention in find(case.model, MultiHeadAttention):
            if attention.causal and attention.n_heads > 1:
                saved = 1 - 8 / attention.n_heads if attention.n_heads > 8 else 1 - 1 / attention.n_heads  # noqa: PLR2004
                groups = 8 if attention.n_heads > 8 else 1  # noqa: PLR2004
                gib = 2 * case.cached_per_token * context / 2**30
                help_ = f"{groups} kv heads would save {saved:.0%} of {gib:.3g} GiB (bf16) at {context:,} tokens"
                yield Finding(f"{path}.kind", f"{attention.n_heads} heads, as many kv heads", attention.n_heads, "kind gqa", help_)


class WindowBeyondContext(Rule):
    """A window is narrower than the context."""

    code = "ATT006"
    severity = Severity.WARNING
    title = "a window as wide as the context or wider"
    reason = "A window that no sequence outgrows masks nothing; kernels may still take the slower path for it."
    source = "Mistral 7B, arXiv:2310.06825 section 2: a window of 4,096 in a context of 8,192 (confirmed)"
    valid = (example(attention=f"{MHA}, window: 1024}}"),)
    invalid = (example(attention=f"{MHA}, window: 4096}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every window or chunk of at least max_seq_len."""
        context = case.model.max_seq_len
        for path, attention in find(case.model, Attention):
            for name in ("window", "chunk"):
                width = getattr(attention, name)
                if context is not None and width is not None and width >= context:
                    message = f"a {name} of {width:,} in a context of {context:,}"
                    yield Finding(f"{path}.{name}", message, width, f"below {context:,}", f"leave {name} out")


class NobodySeesAll(Rule):
    """Among windowed layers some see everything."""

    code = "ATT007"
    severity = Severity.INFO
    title = "no layer sees the whole context"
    reason = (
        "With windows alone, what is far passes on from layer to layer only; models of long context keep a full layer in every two to six."
    )
    source = "Gemma 2, arXiv:2408.00118 section 2 (1 in 2); Gemma 3, arXiv:2503.19786 section 2 (1 in 6) (confirmed)"
    spares = "models in which no layer has a window or chunk"
    valid = (example(), example(attention=f"{MHA}}}"))
    invalid = (example(attention=f"{MHA}, window: 1024}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """All layers have a window or a chunk."""
        bounded = [layer.block.attention.window or layer.block.attention.chunk or 0 for layer in case.layers]
        if bounded and all(bounded):
            name = "window" if case.layers[0].block.attention.window else "chunk"
            path = f"{case.layers[0].path}.attention.{name}"
            yield Finding(path, f"all layers see at most {max(bounded):,} tokens at once", max(bounded), "a full layer among them")


class LatentNoSmaller(Rule):
    """A latent is smaller than what it stands for."""

    code = "ATT008"
    severity = Severity.WARNING
    title = "a latent rank that compresses nothing"
    reason = (
        "MLA caches kv_lora_rank + qk_rope_head_dim elements in place of keys and values of all heads, and pays two products for "
        "it; a rank as large as those saves nothing."
    )
    source = "DeepSeek-V2, arXiv:2405.04434 section 2.1 and Table 1: 576 elements against 32,768 (confirmed)"
    valid = (example(attention=MLA.format(256, 128)),)
    invalid = (example(attention=MLA.format(256, 1024)), example(attention=MLA.format(1024, 128)))

    def check(self, case: Case) -> Iterator[Finding]:
        """A rank of keys and values at least as large as they are, or one of queries at least d_model."""
        for path, mla in find(case.model, MultiHeadLatentAttention):
            whole = mla.n_heads * (mla.qk_nope_head_dim + mla.v_head_dim)
            if mla.kv_lora_rank >= whole:
                yield Finding(
                    f"{path}.kv_lora_rank", f"a latent of {mla.kv_lora_rank:,} for {whole:,} elements", mla.kv_lora_rank, f"below {whole:,}"
                )
            if mla.q_lora_rank is not None and mla.q_lora_rank >= case.model.d_model:
                expected = f"below d_model {case.model.d_model:,}"
                yield Finding(
                    f"{path}.q_lora_rank", f"queries of rank {mla.q_lora_rank:,}", mla.q_lora_rank, expected, "leave q_lora_rank out"
                )


def _widths(attention: Attention, d_model: int) -> tuple[int, int] | None:
    """(width of queries and keys, width of values) of one head."""
    if isinstance(attention, MultiHeadLatentAttention):
        return attention.qk_nope_head_dim + attention.qk_rope_head_dim, attention.v_head_dim
    if isinstance(attention, ProjectedAttention):
        width = int(attention.width(d_model))
        return width, width if attention.v_head_dim is None else attention.v_head_dim
    return None
