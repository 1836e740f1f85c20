"""Rules of consistency: what validates, and no model could mean."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.rules import all_rules
from archcli.rules.base import Case, Finding, Rule, Severity, example


class Contradiction(Rule):
    """Sizes agree with each other."""

    code = "CON001"
    severity = Severity.ERROR
    title = "values that contradict each other"
    reason = "Each value is fine alone; together no forward can be made of them."
    source = "the modules' own checks: archcli refuses to count such a model"
    valid = (example(),)
    invalid = (example(d_model="500", attention="{kind: mha, n_heads: 8}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every contradiction that no other rule has words of its own for."""
        claimed = frozenset[str]().union(*(rule.claims for rule in all_rules().values()))
        for misfit in case.misfits:
            if misfit.path.rsplit(".", 1)[-1] not in claimed:
                yield Finding(misfit.path, misfit.what, help=misfit.hint)


class UnknownIgnore(Rule):
    """What is ignored exists."""

    code = "CON002"
    severity = Severity.WARNING
    title = "ignore names no rule"
    reason = "A code that no rule begins with silences nothing."
    source = "archcli rules lists the codes"
    valid = (example(top="ignore: [FFN001]"), example(top="ignore: [FFN]"))
    invalid = (example(top="ignore: [FFN999]"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every prefix of no code."""
        for i, prefix in enumerate(case.model.ignore):
            if not any(code.startswith(prefix) for code in all_rules()):
                yield Finding(f"ignore.{i}", f"{prefix!r} is the beginning of no rule's code", prefix, "a code or its beginning")


class TinyVocabulary(Rule):
    """A vocabulary holds at least the bytes."""

    code = "CON003"
    severity = Severity.WARNING
    title = "a vocabulary smaller than 256"
    reason = "Byte-level models have 256 entries and a few marks; fewer cannot spell every text."
    source = "ByT5, arXiv:2105.13626 section 3: 256 bytes and special tokens"
    valid = (example(vocab_size="264"),)
    invalid = (example(vocab_size="64"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Fewer than 256 entries."""
        if case.model.vocab_size < 256:  # noqa: PLR2004
            yield Finding("vocab_size", f"{case.model.vocab_size} entries", case.model.vocab_size, "at least 256")


class ShortContext(Rule):
    """The context is one a model is trained on."""

    code = "CON004"
    severity = Severity.WARNING
    title = "max_seq_len shorter than a paragraph"
    reason = "Published language models have contexts from 128 tokens on; less is a slip or a toy."
    source = "BERT, arXiv:1810.04805 A.2: 128 tokens for most steps, then 512"
    spares = "files without max_seq_len"
    valid = (example(max_seq_len="512"), example(max_seq_len=""))
    invalid = (example(max_seq_len="64"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Below 128."""
        context = case.model.max_seq_len
        if context is not None and context < 128:  # noqa: PLR2004
            yield Finding("max_seq_len", f"a context of {context} tokens", context, "at least 128")
