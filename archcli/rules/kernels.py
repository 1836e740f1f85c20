"""Rules of kernels: attention that fused kernels cannot run, so that its scores are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.modules import SoftmaxAttention
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.rules.base import (
    Case,
    DesignRule,
    Finding,
    Severity,
    describe_head,
    example,
    head_key,
    head_width,
)

MHA = "{kind: mha, n_heads: 8, position: {kind: rope, theta: 10000}"
MLA = (
    "{kind: mla, n_heads: 8, q_lora_rank: 256, kv_lora_rank: 128, qk_nope_head_dim: 64, qk_rope_head_dim: "
    "32, v_head_dim: 64, position: {kind: rope, theta: 10000}}"
)
# see FLASH
WIDEST = 256
BIASES = {"scores": "ALiBi", "keys": "a bias of relative keys"}
"""What positions add to scores, by where they act."""
FLASH = (
    "FlashAttention's README: head_dim up to 256 (confirmed); torch sdp_utils.cpp: q, k and v share one "
    "head_dim up to 256 (confirmed)"
)


class HeadsBeyondKernels(DesignRule):
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
    known: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("gemma-4-12b", "gemma-4-26b-a4b", "gemma-4-31b", "gemma-4-e2b", "gemma-4-e4b"),
            "global layers have heads of 512, as their configs say",
        ),
        **dict.fromkeys(
            ("deepseek-v4-flash", "deepseek-v4-pro"),
            "one vector of 512 numbers is the key and the value of all heads, as its config says",
        ),
        "zamba-7b": "its shared attention reads twice d_model with 16 heads, as its config says",
    }
    valid = (
        example(attention="{kind: mha, n_heads: 2, head_dim: 256, position: {kind: rope, theta: 10000}}"),
    )
    invalid = (
        example(attention="{kind: mha, n_heads: 1, head_dim: 512, position: {kind: rope, theta: 10000}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every attention whose query or value heads are wider than fused kernels support."""
        for path, attention, qk_width, v_width in _widths(case):
            widest = max(qk_width, v_width)
            if widest > WIDEST:
                # the caret belongs below the field that is too wide
                key = "v_head_dim" if v_width > qk_width else head_key(attention)
                width = case.model.d_model
                message = (
                    f"v_head_dim {widest:,}"
                    if v_width > qk_width
                    else describe_head(attention, width, widest)
                )
                yield Finding(f"{path}.{key}", message, widest, f"at most {WIDEST}")


class UnequalHeads(DesignRule):
    """Heads of queries, keys and values have one width."""

    code = "ATT003"
    severity = Severity.INFO
    title = "v_head_dim differs from the head_dim of queries and keys"
    reason = (
        "torch's flash kernel asks for one head_dim of q, k and v, so these fall to another backend there; "
        "FlashAttention-3 takes some unequal pairs, MLA's 192 and 128 among them."
    )
    source = f"{FLASH}; FlashAttention-3's pairs as reported (secondary)"
    spares = "linear attention"
    valid = (example(),)
    invalid = (
        example(
            attention=(
                "{kind: mha, n_heads: 8, head_dim: 64, v_head_dim: 128, position: {kind: rope, theta: 10000}}"
            )
        ),
        example(attention=MLA),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every attention whose values differ from queries and keys in width."""
        for path, _, width, v_width in _widths(case):
            if width != v_width:
                message = f"head_dim {width} of queries and keys, {v_width} of values"
                yield Finding(f"{path}.v_head_dim", message, [width, v_width], "one width")


class SoftcapExcludesKernels(DesignRule):
    """Attention scores have no softcap."""

    code = "ATT004"
    severity = Severity.INFO
    title = "a softcap on attention scores, which some fused kernels lack"
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
        """Report every attention with a softcap."""
        for path, attention in find(case.model, SoftmaxAttention):
            if attention.softcap is not None:
                message = f"softcap {attention.softcap:g} on attention scores"
                yield Finding(f"{path}.softcap", message, attention.softcap, "none")


class MaskExcludesKernels(DesignRule):
    """The mask of attention is the causal one, or none."""

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
    of_text = True
    valid = (example(), example(attention=f"{MHA}, window: 2048}}"))
    invalid = (
        example(attention=f"{MHA}, window: 1024}}"),
        example(attention="{kind: mha, n_heads: 8, position: {kind: alibi}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first place of each kind of mask or bias besides the causal mask."""
        seen: set[str] = set()
        for path, what in _masks(case):
            if what not in seen:
                seen.add(what)
                yield Finding(path, f"{what} on the attention scores", what, "the causal mask or none")


def _masks(case: Case) -> Iterator[tuple[str, str]]:
    """(path, description) of every mask or bias besides the causal mask."""
    context = case.model.max_seq_len
    for path, attention in find(case.model, SoftmaxAttention):
        facts = attention.facts()
        for name, width in (("window", facts.window), ("chunk", facts.chunk)):
            # a window as long as the context masks nothing; ATT006 reports it
            if width is not None and (context is None or width < context):
                yield f"{path}.{name}", f"a {name}"
        if facts.sparsity is not None:
            yield f"{path}.sparsity", "a sparse pattern"
        if facts.position.acts_on in BIASES:
            yield f"{path}.position", BIASES[facts.position.acts_on]
    for stem, stack in stacks(case.model):
        if stack.score_bias is not None:
            yield f"{stem}score_bias", "a relative bias"


def _widths(case: Case) -> Iterator[tuple[str, SoftmaxAttention, int, int]]:
    """(path, attention, width of queries and keys, width of values) of every attention that has scores."""
    for path, attention in find(case.model, SoftmaxAttention):
        width = head_width(attention, case.model.d_model)
        if width is not None:
            yield path, attention, width, attention.facts(case.model.d_model).v_head_dim
