"""Rules of kernels: what fused attention takes, and what it leaves to scores written out."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.modules import (
    ALiBi,
    MultiHeadLatentAttention,
    ProjectedAttention,
    RelativeKey,
    SoftmaxAttention,
)
from archcli.modules.base import find
from archcli.modules.stack import stacks
from archcli.rules.base import Case, Finding, Rule, Severity, example, head_width

MHA = "{kind: mha, n_heads: 8, position: {kind: rope, theta: 10000}"
MLA = (
    "{kind: mla, n_heads: 8, q_lora_rank: 256, kv_lora_rank: 128, qk_nope_head_dim: 64, qk_rope_head_dim: "
    "32, v_head_dim: 64, position: {kind: rope, theta: 10000}}"
)
WIDEST = 256
FLASH = (
    "FlashAttention's README: head_dim up to 256 (confirmed); torch sdp_utils.cpp: q, k and v share one "
    "head_dim up to 256 (confirmed)"
)


class HeadsBeyondKernels(Rule):
    """head_dim is no more than fused kernels take."""

    code = "ATT002"
    severity = Severity.WARNING
    title = "head_dim is more than fused attention takes"
    reason = (
        "Fused attention kernels stop at heads of 256; wider ones fall back to scores written out in full, S "
        "x S of them."
    )
    source = f"{FLASH}; torch on ROCm takes up to 512 with AOTriton 0.9 (confirmed)"
    spares = "linear attention, which has no scores"
    valid = (
        example(attention="{kind: mha, n_heads: 2, head_dim: 256, position: {kind: rope, theta: 10000}}"),
    )
    invalid = (
        example(attention="{kind: mha, n_heads: 1, head_dim: 512, position: {kind: rope, theta: 10000}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Every attention with wider heads, of queries or of values."""
        for path, attention in find(case.model, SoftmaxAttention):
            pair = _widths(attention, case.model.d_model)
            if pair is not None and max(pair) > WIDEST:
                name = _stated(attention, values=pair[1] > pair[0])
                yield Finding(f"{path}.{name}", f"heads {max(pair):,} wide", max(pair), f"at most {WIDEST}")


class UnequalHeads(Rule):
    """Queries, keys and values have one width."""

    code = "ATT003"
    severity = Severity.INFO
    title = "values are not as wide as queries and keys"
    reason = (
        "torch's flash kernel asks for one head_dim of q, k and v, so these fall to another backend there; "
        "FlashAttention-3 takes some unequal pairs, MLA's 192 and 128 among them."
    )
    source = f"{FLASH}; FlashAttention-3's pairs as reported (secondary)"
    spares = "linear attention"
    valid = (example(),)
    invalid = (
        example(
            attention="{kind: mha, n_heads: 8, head_dim: 64, v_head_dim: 128, position: {kind: rope, theta: 10000}}"
        ),
        example(attention=MLA),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Every attention whose values differ in width."""
        for path, attention in find(case.model, SoftmaxAttention):
            pair = _widths(attention, case.model.d_model)
            if pair is not None and pair[0] != pair[1]:
                yield Finding(
                    f"{path}.v_head_dim",
                    f"queries and keys {pair[0]} wide, values {pair[1]}",
                    list(pair),
                    "one width",
                )


class SoftcapExcludesKernels(Rule):
    """Scores are not capped."""

    code = "ATT004"
    severity = Severity.INFO
    title = "a softcap on scores, which some fused kernels do not know"
    reason = (
        "torch's scaled_dot_product_attention has no argument for it; FlashAttention has since 2.6, "
        "FlexAttention can express it. Gemma 3 took QK-norm in its place."
    )
    source = (
        "Gemma 2, arXiv:2408.00118 section 2; Gemma 3, arXiv:2503.19786 section 2; FlashAttention's "
        "changelog (confirmed)"
    )
    valid = (example(),)
    invalid = (example(attention=f"{MHA}, softcap: 50}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every capped attention."""
        for path, attention in find(case.model, SoftmaxAttention):
            if attention.softcap is not None:
                yield Finding(
                    f"{path}.softcap",
                    f"scores are capped at {attention.softcap:g}",
                    attention.softcap,
                    "none",
                )


class MaskExcludesKernels(Rule):
    """The mask is the plain causal one, or none."""

    code = "ATT009"
    severity = Severity.INFO
    title = "a mask or bias that torch's flash kernel does not take"
    reason = (
        "torch's flash kernel takes the causal mask as a switch and no other: a window, a chunk, a pattern "
        "or a bias on the scores has to be handed over as a mask, which excludes it. FlashAttention itself "
        "has windows since 2.3 and ALiBi since 2.4."
    )
    source = (
        "torch sdp_utils_cpp.h: no attn_mask that is not null (confirmed); FlashAttention's README, "
        "changelog (confirmed)"
    )
    spares = "windows no narrower than max_seq_len"
    valid = (example(), example(attention=f"{MHA}, window: 2048}}"))
    invalid = (
        example(attention=f"{MHA}, window: 1024}}"),
        example(attention="{kind: mha, n_heads: 8, position: {kind: alibi}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """The first place of each sort of mask."""
        seen: set[str] = set()
        for path, what in _masks(case):
            if what not in seen:
                seen.add(what)
                yield Finding(path, f"{what} on the scores", what, "causal, or all")


def _masks(case: Case) -> Iterator[tuple[str, str]]:
    """(path, what it is) of every mask or bias beside the causal mask."""
    context = case.model.max_seq_len
    for path, attention in find(case.model, SoftmaxAttention):
        for name in ("window", "chunk"):
            width = getattr(attention, name)
            if width is not None and (context is None or width < context):
                yield f"{path}.{name}", f"a {name}"
        if attention.sparsity is not None:
            yield f"{path}.sparsity", "a sparse pattern"
        if isinstance(attention.position, ALiBi | RelativeKey):
            yield (
                f"{path}.position",
                "ALiBi" if isinstance(attention.position, ALiBi) else "a bias of relative keys",
            )
    yield from (
        (f"{stem}score_bias", "a relative bias")
        for stem, stack in stacks(case.model)
        if stack.score_bias is not None
    )


def _widths(attention: SoftmaxAttention, d_model: int) -> tuple[int, int] | None:
    """(width of queries and keys, width of values) of one head; None where heads do not divide d_model."""
    if isinstance(attention, ProjectedAttention) and head_width(attention, d_model) is None:
        return None
    facts = attention.facts(d_model)
    widths: tuple[int, int] = facts.head_dim, facts.v_head_dim
    return None if facts.head_dim is None else widths


def _stated(attention: SoftmaxAttention, *, values: bool) -> str:
    """The key that the width comes from."""
    if values:
        return "v_head_dim"
    if isinstance(attention, MultiHeadLatentAttention):
        return "qk_nope_head_dim"
    return "n_heads" if getattr(attention, "head_dim", None) is None else "head_dim"
