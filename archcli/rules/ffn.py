"""Rules of feed-forward networks: how wide, how gated."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.passes import find
from archcli.modules import GLU, MLP
from archcli.rules.base import Case, Finding, Rule, Severity, example


class FarFromSeenWidth(Rule):
    """d_ff / d_model of a dense feed-forward network lies within what was ever shipped."""

    code = "FFN002"
    severity = Severity.WARNING
    title = "d_ff / d_model is outside of what models use"
    reason = (
        "Published models have d_ff / d_model between 2 and 8 in each matrix. Loss changes little between 1 and 10, so outside of 2 to 8 a "
        "slip (a matrix counted twice, a key of another model) is likelier than a choice."
    )
    source = "GPT-3, arXiv:2005.14165 section 2.1 (confirmed); Gemma, arXiv:2403.08295 and its code (confirmed); Kaplan, arXiv:2001.08361 Fig. 5, read off a plot"
    spares = "experts of a mixture, which are narrow on purpose"
    evidence = "ff_ratio"
    valid = (example(ffn="{kind: mlp, d_ff: 2048}"), example(ffn="{kind: glu, d_ff: 4096}"))
    invalid = (example(ffn="{kind: glu, d_ff: 8192}"), example(ffn="{kind: mlp, d_ff: 512}"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Every dense network outside of 2 to 8."""
        width = case.model.d_model
        for path, ffn in dense(case):
            ratio = ffn.d_ff / width
            if not 2 <= ratio <= 8:  # noqa: PLR2004 - the range the rule is about
                yield Finding(f"{path}.d_ff", f"d_ff {ffn.d_ff:,} is {ratio:.3g} times d_model {width:,}", ratio, "2 to 8")


def dense(case: Case) -> Iterator[tuple[str, MLP | GLU]]:
    """(path, network) of every feed-forward network that is no expert of a mixture."""
    for cls in (MLP, GLU):
        yield from ((path, ffn) for path, ffn in find(case.model, cls) if path.rsplit(".", 1)[-1] == "ffn")
