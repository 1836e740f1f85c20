"""Rules of positions: what bounds the context, and whether RoPE's base reaches it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import exp, log

from archcli.errors import Problem
from archcli.modules import Learned, Rope
from archcli.modules.attention.mixer import mixers
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.rules.base import DIVISOR, Case, DesignRule, Finding, Severity, example

ROPE = "{{kind: mha, n_heads: 4, head_dim: 128, position: {{kind: rope, theta: {}}}}}"
CONTEXTS = tuple(1024 << i for i in range(11))
BASES = {
    16: (4.7e5, 2.4e6, 1.5e7, 8.8e7, 5.0e8, 3.1e9, 1.9e10, 1.2e11, 7.3e11, 4.6e12, 3.0e13),
    24: (1.2e5, 6.1e5, 3.3e6, 1.4e7, 7.1e7, 3.6e8, 2.0e9, 1.1e10, 5.0e10, 3.1e11, 1.6e12),
    32: (5.9e4, 2.1e5, 1.5e6, 7.0e6, 2.7e7, 1.6e8, 7.0e8, 3.7e9, 1.7e10, 9.0e10, 4.1e11),
    48: (2.9e4, 6.2e4, 2.5e5, 1.0e6, 4.4e6, 1.7e7, 7.8e7, 4.3e8, 1.7e9, 5.3e9, 3.0e10),
    64: (7.8e3, 3.7e4, 1.1e5, 3.9e5, 1.7e6, 4.7e6, 3.1e7, 8.4e7, 4.0e8, 2.1e9, 3.9e9),
    80: (8.9e3, 1.5e4, 6.7e4, 3.1e5, 7.8e5, 2.5e6, 7.7e6, 4.3e7, 1.9e8, 2.3e8, 4.4e9),
    96: (5.5e3, 2.1e4, 5.5e4, 1.7e5, 5.7e5, 1.9e6, 5.1e6, 2.3e7, 7.1e7, 2.3e8, 1.4e9),
    112: (5.5e3, 1.7e4, 5.0e4, 1.6e5, 3.4e5, 7.1e5, 5.0e6, 6.9e6, 6.9e6, 6.9e7, 6.4e8),
    128: (4.3e3, 1.6e4, 2.7e4, 8.4e4, 3.1e5, 6.4e5, 2.1e6, 7.8e6, 3.6e7, 6.4e7, 5.1e8),
    160: (4.7e3, 1.2e4, 2.3e4, 7.2e4, 1.8e5, 7.0e5, 1.8e6, 5.1e6, 1.9e7, 5.4e7, 1.5e8),
    192: (4.1e3, 7.7e3, 3.0e4, 6.3e4, 1.7e5, 4.8e5, 1.3e6, 4.5e6, 1.2e7, 2.9e7, 9.3e7),
    256: (3.0e3, 7.4e3, 2.0e4, 5.2e4, 1.4e5, 3.0e5, 7.6e5, 2.5e6, 4.9e6, 1.8e7, 4.6e7),
}
"""The least base for each context of CONTEXTS, by rotary dims.

128 is Table 2 of arXiv:2405.14591. The others are its Eq. 11 evaluated: the least base of two significant
digits for which sum_i cos(m base^(-2i/dims)) is nowhere negative for m = 0 ... context
(benchmarks/rope_bases.py).
"""


def least_base(rotary_dims: int, context: int) -> float | None:
    """The least base for a context of at least 1,024 tokens and up to 256 rotary dims; else None.

    Between two contexts it is interpolated in logarithms. Beyond the last one the largest bound still
    holds, as bounds grow with the context. Other dims take the bound of the next larger ones, which is
    lower.
    """
    larger = [dims for dims in BASES if dims >= rotary_dims]
    if not larger or context < CONTEXTS[0]:
        return None
    bases = BASES[larger[0]]
    i = bisect_left(CONTEXTS, context)
    if i == len(CONTEXTS) or CONTEXTS[i] == context:
        return bases[min(i, len(bases) - 1)]
    part = log(context / CONTEXTS[i - 1]) / log(CONTEXTS[i] / CONTEXTS[i - 1])
    return exp(log(bases[i - 1]) * (1 - part) + log(bases[i]) * part)


class LearnedBoundsContext(DesignRule):
    """Positions are not limited by a learned table."""

    code = "POS001"
    severity = Severity.INFO
    title = "learned position embeddings limit the context"
    year = 2025
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
        """Report every learned position table."""
        for path, table in find(case.model, Learned):
            rows = table.max_seq_len
            yield Finding(path, f"learned embeddings of {rows:,} positions", rows, "rope, alibi or none")


class BaseBelowBound(DesignRule):
    """RoPE's base (theta) is large enough for the context."""

    code = "POS002"
    severity = Severity.INFO
    title = "RoPE's base is below the bound for this context"
    reason = (
        "Below a base that grows with the context, attention may prefer random distant tokens to similar "
        "ones. The bound is not strict, for layers stack: Llama 2 (1e4 at 4,096) lies below it. It is not "
        "monotone in the base either: neighbours differ by some 30%."
    )
    source = (
        "Base of RoPE Bounds Context Length, arXiv:2405.14591 section 4.3, Table 2 for 128 rotary dims and "
        "contexts up to 1,048,576 (confirmed); other dims from its Eq. 11 (derived)"
    )
    spares = (
        "scaled frequencies, windowed layers, odd or more than 256 rotary dimensions, contexts below 1,024"
    )
    valid = (
        example(attention=ROPE.format(20000), max_seq_len="2048"),
        example(attention=ROPE.format(600_000_000), max_seq_len="1048576"),
        example(attention=ROPE.format("120000, rotary_dim: 64"), max_seq_len="4096"),
    )
    invalid = (
        example(attention=ROPE.format(10000), max_seq_len="4096"),
        example(attention=ROPE.format(10000), max_seq_len="1048576"),
        example(attention=ROPE.format(500_000_000), max_seq_len="10485760"),
        example(attention=ROPE.format(10000).replace("128", "96"), max_seq_len="4096"),
        example(attention=ROPE.format("10000, rotary_dim: 64"), max_seq_len="4096"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every layer of full attention whose unscaled base is below the bound."""
        context = case.model.max_seq_len or 0
        for path, mixer in mixers(case.model):
            facts = mixer.facts(case.model.d_model)
            base = facts.position.unscaled_base
            # a window bounds the distances that the base has to tell apart
            if base is None or facts.window or facts.chunk:
                continue
            dims = facts.position.rotary_width(facts.rotary_dim)
            least = least_base(dims, context)
            # odd dims are POS003's to report
            if least is not None and base < least and dims % 2 == 0:
                message = f"theta {base:,.0f} with {dims} rotary dimensions and max_seq_len {context:,}"
                # two digits, as the table has no more
                expected = f"at least {float(f'{least:.2g}'):,.0f}"
                yield Finding(f"{path}.position.theta", message, base, expected)


class OddRotaryDims(DesignRule):
    """RoPE rotates an even number of dimensions, at most head_dim."""

    code = "POS003"
    severity = Severity.ERROR
    title = "RoPE cannot rotate these dimensions in pairs"
    reason = (
        "RoPE rotates the dimensions of a head in pairs: of an odd number one is left over, and no more than "
        "head_dim can be rotated."
    )
    source = "RoFormer, arXiv:2104.09864 section 3.2 (id confirmed)"
    valid = (example(),)
    invalid = (
        example(attention="{kind: mha, n_heads: 8, position: {kind: rope, rotary_dim: 33}}"),
        example(attention="{kind: mha, n_heads: 8, position: {kind: rope, rotary_dim: 96}}"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the modules' conflicts of rotary dims and head widths."""
        for conflict in case.conflicts:
            if self.reports_conflict(conflict):
                expected = "an even number, at most head_dim"
                yield Finding(conflict.path, conflict.what, None, expected, conflict.hint, cause=DIVISOR)

    def reports_conflict(self, conflict: Problem) -> bool:
        """Whether the modules found a conflict that this rule reports: rotary dims or head widths."""
        return conflict.code in {"rotary-dims-even", "rotary-dims-within-head"}


class NoPositionEncoding(DesignRule):
    """An encoder encodes positions in some way."""

    code = "POS004"
    severity = Severity.WARNING
    title = "an encoder without positions"
    reason = (
        "Without a causal mask and without positions a model sees a bag of tokens. A causal decoder can do "
        "without (NoPE), an encoder cannot."
    )
    source = (
        "Vaswani et al., arXiv:1706.03762 section 3.5 (id confirmed); Kazemnejad et al., arXiv:2305.19466 "
        "for causal decoders (not checked)"
    )
    spares = (
        "causal decoders, models whose layers share a table of relative positions, encoders of images and "
        "sounds, which have those of their front end"
    )
    valid = (
        example(
            attention="{kind: mha, n_heads: 8, causal: false, position: {kind: rope}}", top="kind: encoder"
        ),
        example(),
    )
    invalid = (example(attention="{kind: mha, n_heads: 8, causal: false}", top="kind: encoder"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report an encoder without any position."""
        model = case.model
        biased = any((stack.score_bias or stack.relative) is not None for _, stack in stacks(model))
        if model.caches or model.media or biased or model.embedding.position.acts_on != "nothing":
            return
        ordered = [facts.causal or facts.position.acts_on != "nothing" for _, facts in case.mixers]
        if ordered and not any(ordered):
            path, _ = case.mixers[0]
            yield Finding(
                path, "no positions, in embeddings or in attention", "none", "positions of some kind"
            )


class RopeBaseTooSmall(DesignRule):
    """RoPE's base (theta) is at least 1,000."""

    code = "POS005"
    severity = Severity.WARNING
    title = "RoPE's base is below 1,000"
    reason = (
        "Published bases start at 1e4 (RoFormer, Llama 2, Gemma 3's windowed layers). The slowest pair turns "
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
        """Report every RoPE base below 1e3."""
        for path, rope in find(case.model, Rope):
            if rope.theta < 1e3:
                yield Finding(f"{path}.theta", f"theta {rope.theta:,.0f}", rope.theta, "1e4 or more")
