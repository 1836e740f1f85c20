"""Rules of consistency: values that are valid alone and contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from archcli.modules import Learned
from archcli.modules.attention.mixer import RECURRENT
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import find
from archcli.modules.spec.kinds import kind_of
from archcli.rules import all_rules
from archcli.rules.base import DIVISOR, Case, DesignRule, Finding, Severity, example
from archcli.rules.lint import is_prefix
from archcli.units import agrees

FROM_README = "archcli's own rule: the README says what the keys mean"
LEARNED = "{tied: true, position: {kind: learned"
MISDIRECTED = {
    True: "causal: false in a decoder: its layers see later tokens",
    False: "causal: true in an encoder: its layers do not see later tokens",
}
"""What is wrong with a layer, by whether its stack is causal."""


CAUSES = {"heads-divide-width": DIVISOR}
"""Cause by a conflict's code, where another rule may report the same mistake."""


class Contradiction(DesignRule):
    """The values of one file do not contradict each other."""

    code = "CON001"
    severity = Severity.ERROR
    title = "values that contradict each other"
    reason = "Each value is valid on its own; together they make no model."
    source = "the modules' own checks: archcli refuses to count such a model"
    valid = (example(),)
    invalid = (example(d_model="500", attention="{kind: mha, n_heads: 8}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every conflict that no other rule reports."""
        for conflict in case.conflicts:
            # one finding a conflict: ATT001, MOE001, POS003 and REC007 have their own
            if not any(rule.reports_conflict(conflict) for rule in all_rules().values()):
                yield Finding(
                    conflict.path, conflict.what, help=conflict.hint, cause=CAUSES.get(conflict.code, "")
                )


class UnknownIgnore(DesignRule):
    """Every code in `ignore` is that of a rule, or its beginning."""

    code = "CON002"
    severity = Severity.WARNING
    title = "ignore names no rule"
    reason = "A code that no rule begins with silences nothing."
    source = "archcli rules lists the codes"
    valid = (example(top="ignore: [FFN001]"), example(top="ignore: [FFN]"), example(top="ignore: [ALL]"))
    invalid = (example(top="ignore: [FFN999]"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every ignored prefix that no rule's code begins with."""
        for i, prefix in enumerate(case.model.ignore):
            if not is_prefix(prefix.upper()):
                message = f"no rule's code begins with {prefix!r}"
                yield Finding(f"ignore.{i}", message, prefix, "a code or its beginning")


class WrongCausality(DesignRule):
    """Layers of a decoder are causal, layers of an encoder are not."""

    code = "CON003"
    severity = Severity.WARNING
    title = "a decoder that sees later tokens, or an encoder that does not"
    reason = (
        "A layer sees only earlier tokens unless it says causal: false. A language model whose layers see "
        "the next token has nothing to predict; an encoder whose layers do not lacks half of its context."
    )
    source = "Vaswani et al., arXiv:1706.03762 section 3.2.3 (id confirmed)"
    spares = "cross attention, and sparse patterns, which state what they see"
    valid = (
        example(),
        example(
            attention="{kind: mha, n_heads: 8, causal: false, position: {kind: rope}}", top="kind: encoder"
        ),
    )
    invalid = (
        example(attention="{kind: mha, n_heads: 8, causal: false, position: {kind: rope}}"),
        example(attention="{kind: mha, n_heads: 8, position: {kind: rope}}", top="kind: encoder"),
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every attention that is causal in an encoder, or bidirectional in a decoder."""
        is_causal = {stem: stack.is_causal for stem, stack in stacks(case.model)}
        for path, facts in case.mixers:
            # the longest, as the empty stem of a decoder begins every path
            stem = max((stem for stem in is_causal if path.startswith(stem)), key=len)
            wanted = is_causal[stem]
            states_direction = facts.pattern not in {None, RECURRENT} and facts.sparsity is None
            if states_direction and facts.causal != wanted:
                what = MISDIRECTED[wanted]
                value = str(wanted).lower()
                yield Finding(f"{path}.causal", what, facts.causal, value, f"causal: {value}")


class ShortContext(DesignRule):
    """max_seq_len is at least 32 tokens."""

    code = "CON004"
    severity = Severity.WARNING
    title = "max_seq_len is below 32"
    reason = (
        "Text encoders beside images have contexts of 64 and 77 tokens (SigLIP, CLIP), language models 512 "
        "and more; below 32 it is a slip."
    )
    source = (
        "the defaults of transformers' CLIPTextConfig and SiglipTextConfig, classes whose config names them"
    )
    spares = "files without max_seq_len"
    valid = (example(max_seq_len="77"), example(max_seq_len=""))
    invalid = (example(max_seq_len="8"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a max_seq_len below 32."""
        context = case.model.max_seq_len
        if context is not None and context < 32:
            yield Finding("max_seq_len", f"max_seq_len {context}", context, "at least 32")


class PublishedDiffers(DesignRule):
    """The figures under `published` equal archcli's counts."""

    code = "CON005"
    severity = Severity.WARNING
    title = "a published figure differs from the count"
    reason = (
        "Either a size was copied wrongly, or the figure is rounded, or of another model; a rounded one "
        "is written as it is printed: 7.62B."
    )
    source = FROM_README
    spares = "figures that archcli params does not total, adapters, and whatever --set has changed"
    counts = True
    valid = (
        example(),
        example(top="published: {params: 27660800}"),
        example(top="published: {params: 27.7M}"),
    )
    invalid = (example(top="published: {params: 27000000}"), example(top="published: {params: 27.6M}"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every figure of `published` that differs from archcli's count."""
        totals: dict[str, Any] = {} if case.altered else dict(case.totals)
        if "lora_params" in totals:
            # what is published is the model without its adapters
            totals["params"] -= totals["lora_params"]
        for name, published in case.model.published.items():
            counted = totals.get(name)
            # totals hold mappings too, such as by_group
            if isinstance(counted, int) and not agrees(published, counted):
                shown = published if isinstance(published, str) else f"{published:,}"
                differ = "" if isinstance(published, str) else f"{counted - published:+,}"
                message = f"published {name} {shown}, counted {counted:,}"
                yield Finding(f"published.{name}", message, published, f"{counted:,}", differ)


class DuplicatePositions(DesignRule):
    """Positions are encoded once: in a table or in attention."""

    code = "CON006"
    severity = Severity.WARNING
    title = "positions are encoded twice"
    reason = (
        "A table added to the embeddings and RoPE or ALiBi inside attention say the same; models have one of "
        "them."
    )
    source = (
        "RoFormer, arXiv:2104.09864 section 3 and ALiBi, arXiv:2108.12409 (ids confirmed): each in place of "
        "a table"
    )
    valid = (example(), example(embedding=f"{LEARNED}}}}}", attention="{kind: mha, n_heads: 8}"))
    invalid = (example(embedding=f"{LEARNED}}}}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first attention with its own position in a model with position embeddings."""
        table = case.model.embedding.position
        if table.acts_on != "embedding":
            return
        for path, facts in case.mixers:
            if facts.position.acts_on in {"heads", "scores"} and not path.startswith("encoder."):
                message = f"position {kind_of(facts.position)} beside {kind_of(table)} position embeddings"
                yield Finding(f"{path}.position", message, kind_of(table), "one of them")
                return


class PositionTableTooShort(DesignRule):
    """Position embeddings have a row for every token of the context."""

    code = "CON007"
    severity = Severity.ERROR
    title = "position embeddings shorter than max_seq_len"
    reason = (
        "A token beyond the last row has no position: the model cannot run at the context that the file "
        "states."
    )
    source = "GPT-2 (2019): as many rows as tokens of context"
    spares = "an encoder's own table, whose length source_len gives"
    valid = (example(embedding=f"{LEARNED}}}}}", attention="{kind: mha, n_heads: 8}"),)
    invalid = (example(embedding=f"{LEARNED}, max_seq_len: 1024}}}}", attention="{kind: mha, n_heads: 8}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a position table with fewer entries than max_seq_len."""
        context = case.model.max_seq_len
        for path, table in find(case.model.embedding, Learned, "embedding"):
            rows = table.max_seq_len
            if context is not None and rows < context:
                message = f"{rows:,} position embeddings for max_seq_len {context:,}"
                yield Finding(f"{path}.max_seq_len", message, rows, f"at least {context:,}")


class PatternCutShort(DesignRule):
    """A group has at least as many layers as its pattern."""

    code = "CON008"
    severity = Severity.WARNING
    title = "a pattern longer than n_layers of its group"
    reason = "A group takes as many layers of its pattern as it has; the rest of the pattern is never built."
    source = FROM_README
    valid = (example(),)
    invalid = (
        """\
vocab_size: 32000
d_model: 512
norm: {kind: rmsnorm}
layer:
  kind: pre_norm
  attention: {kind: mha, n_heads: 8, position: {kind: rope}}
  ffn: {kind: glu, d_ff: 1408}
groups:
  - n_layers: 1
    pattern: [{attention: {window: 1024}}, {}]
""",
    )

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every group with fewer layers than its pattern."""
        for stem, stack in stacks(case.model):
            for i, group in enumerate(stack.groups):
                if group.layer is None and group.n_layers < len(group.pattern):
                    n, period = group.n_layers, len(group.pattern)
                    message = f"n_layers {n} with a pattern of {period} layers"
                    yield Finding(f"{stem}groups.{i}.n_layers", message, n, f"at least {period}")
