"""Rules of positions: what bounds the context, and whether RoPE's base reaches it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import exp, log

from archcli.errors import Problem
from archcli.modules import (
    Encoder,
    Learned,
    Mixer,
    NoPosition,
    Rope,
)
from archcli.modules.base import find
from archcli.rules.base import Case, Finding, Rule, Severity, example

ROPE = "{{kind: mha, n_heads: 4, head_dim: 128, position: {{kind: rope, theta: {}}}}}"
K = 1024
CONTEXTS = (K, 2 * K, 4 * K, 8 * K, 16 * K, 32 * K, 64 * K, 128 * K)
BASES = {
    64: (7.8e3, 3.0e4, 1.1e5, 3.9e5, 1.4e6, 4.6e6, 1.6e7),
    128: (4.3e3, 1.6e4, 2.7e4, 8.4e4, 3.1e5, 6.4e5, 2.1e6, 7.8e6),
    256: (3.0e3, 7.3e3, 1.8e4, 4.1e4, 1.1e5, 2.7e5, 7.7e5, 1.9e6),
}
"""Least bases by rotary dims: 128 is Table 2 of arXiv:2405.14591, the others its Eq. 11 evaluated (derived)."""


def least_base(rotary_dim: int, context: int) -> float | None:
    """The bound for a context, between two known ones in logarithms; None where dims or context are not in the table."""
    bases = BASES.get(rotary_dim)
    if bases is None or not CONTEXTS[0] <= context <= CONTEXTS[len(bases) - 1]:
        return None
    i = bisect_left(CONTEXTS, context)
    if CONTEXTS[i] == context:
        return bases[i]
    part = log(context / CONTEXTS[i - 1]) / log(CONTEXTS[i] / CONTEXTS[i - 1])
    return exp(log(bases[i - 1]) * (1 - part) + log(bases[i]) * part)


class LearnedBoundsContext(Rule):
    """Positions do not end where the table does."""

    code = "POS001"
    severity = Severity.INFO
    title = "learned positions bound the context"
    reason = (
        "A learned table has no row beyond max_seq_len: the model cannot run on longer sequences, nor be "
        "stretched to them."
    )
    source = "Press et al., arXiv:2108.12409 (id confirmed); GPT-2's table of 1,024 rows (its config)"
    valid = (example(),)
    invalid = (
        example(embedding="{tied: true, position: {kind: learned}}", attention="{kind: mha, n_heads: 8}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Every learned table."""
        for path, table in find(case.model, Learned):
            yield Finding(
                path, f"a table of {table.max_seq_len:,} positions", table.max_seq_len, "rope, alibi or none"
            )


class BaseBelowBound(Rule):
    """RoPE's base is large enough for the context."""

    code = "POS002"
    severity = Severity.INFO
    title = "RoPE's base is below the bound for this context"
    reason = (
        "Below a base that grows with the context, attention may prefer random distant tokens to similar "
        "ones. The bound is not strict, for layers stack: Llama 2 (1e4 at 4,096) lies below it. It is not "
        "monotone in the base either: neighbours differ by some 30%."
    )
    source = (
        "Base of RoPE Bounds Context Length, arXiv:2405.14591 section 4.3, Table 2 for 128 rotary dims "
        "(confirmed); 64 and 256 from its Eq. 11 (derived)"
    )
    spares = (
        "scaled frequencies, windowed layers, rotary dims other than 64, 128 and 256, contexts outside of "
        "1,024 to 131,072 (65,536 for 64 dims)"
    )
    valid = (example(attention=ROPE.format(20000), max_seq_len="2048"),)
    invalid = (example(attention=ROPE.format(10000), max_seq_len="4096"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every full-attention layer with an unscaled base below the bound."""
        context = case.model.max_seq_len
        for path, mixer in find(case.model, Mixer):
            facts = mixer.facts(case.model.d_model)
            rope = facts.position
            if (
                not isinstance(rope, Rope)
                or rope.scaling.kind != "none"  # type: ignore[attr-defined]
                or facts.window
                or facts.chunk
                or context is None
            ):
                continue
            dims = int(rope.rotary_dim or facts.rotary_dim or 0)
            least = least_base(dims, context)
            if least is not None and rope.theta < least:
                message = f"base {rope.theta:,.0f} with {dims} rotary dims at {context:,} tokens"
                yield Finding(
                    f"{path}.position.theta", message, rope.theta, f"at least {float(f'{least:.2g}'):,.0f}"
                )


class OddRotaryDims(Rule):
    """RoPE turns an even number of dims."""

    code = "POS003"
    severity = Severity.ERROR
    title = "RoPE cannot pair these dims"
    reason = (
        "Rotary positions turn dims in pairs: an odd number, or more than a head has, leaves none to pair "
        "with."
    )
    source = "RoFormer, arXiv:2104.09864 section 3.2 (id confirmed)"
    valid = (example(),)
    invalid = (
        example(attention="{kind: mha, n_heads: 8, position: {kind: rope, rotary_dim: 33}}"),
        example(attention="{kind: mha, n_heads: 8, position: {kind: rope, rotary_dim: 96}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """What the modules say of it."""
        for misfit in case.misfits:
            if self.claims(misfit):
                yield Finding(misfit.path, misfit.what, None, "an even number, at most head_dim", misfit.hint)

    def claims(self, misfit: Problem) -> bool:
        """What the modules say of rotary dims and of the heads they are of."""
        return misfit.path.endswith(("rotary_dim", "qk_rope_head_dim")) or (
            misfit.path.endswith(".position") and "RoPE" in misfit.what
        )


class NoOrder(Rule):
    """Something tells an encoder the order of its tokens."""

    code = "POS004"
    severity = Severity.WARNING
    title = "nothing tells the order of tokens"
    reason = (
        "Without a causal mask and without positions a model sees a bag of tokens. A causal decoder can do "
        "without (NoPE), an encoder cannot."
    )
    source = (
        "Vaswani et al., arXiv:1706.03762 section 3.5 (id confirmed); Kazemnejad et al., arXiv:2305.19466 "
        "for causal decoders (not checked)"
    )
    spares = "causal decoders, models whose layers share a table of relative positions"
    valid = (
        example(
            attention="{kind: mha, n_heads: 8, causal: false, position: {kind: rope}}", top="kind: encoder"
        ),
        example(),
    )
    invalid = (example(attention="{kind: mha, n_heads: 8, causal: false}", top="kind: encoder"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """An encoder with no position anywhere."""
        model = case.model
        if (
            not isinstance(model, Encoder)
            or model.score_bias is not None
            or not isinstance(model.embedding.position, NoPosition)
        ):
            return
        if case.layers and all(
            isinstance(facts.position, NoPosition) and not facts.causal
            for facts in (layer.block.facts() for layer in case.layers if layer.block.mixing is not None)
        ):
            yield Finding(
                f"{case.layers[0].path}.attention",
                "no layer knows where a token stands",
                "none",
                "a position",
            )


class BaseOfNoRope(Rule):
    """RoPE's base is a base."""

    code = "POS005"
    severity = Severity.WARNING
    title = "a RoPE base below a thousand"
    reason = (
        "Published bases begin at 1e4 (RoFormer, Llama 2, Gemma 3's windowed layers). The slowest pair turns "
        "once in 2 pi times the base: below 1e3 distant tokens come to look like near ones within some "
        "thousand tokens."
    )
    source = (
        "RoFormer, arXiv:2104.09864: 10000; Gemma 3's code: 1e4 and 1e6, OLMo 2, arXiv:2501.00656 Table 1: "
        "5e5 (confirmed)"
    )
    valid = (example(attention=ROPE.format(10000)),)
    invalid = (example(attention=ROPE.format(100)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every base below 1e3."""
        for path, rope in find(case.model, Rope):
            if rope.theta < 1e3:  # noqa: PLR2004
                yield Finding(f"{path}.theta", f"a base of {rope.theta:,.0f}", rope.theta, "1e4 or more")
