"""Rules of feed-forward networks: how wide, how gated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from archcli.modules import FeedForward
from archcli.modules.spec.base import find
from archcli.modules.spec.kinds import kind_of
from archcli.rules.base import Case, DesignRule, Finding, Severity, example

LEAST, MOST = 1.5, 8
"""d_ff / d_model of shipped models: ModernBERT-base 1,152 on 768; Gemma 1, Gemma 2 27B, LaMDA 8."""
SHAZEER = "Shazeer, arXiv:2002.05202 section 2: gated networks at 2/3 of the width, 8/3 (derived)"


def dense(case: Case) -> Iterator[tuple[str, FeedForward, int]]:
    """(path, network, d_ff) of every feed-forward network that is no expert, nor stands beside a mixture."""
    networks = dict(find(case.model, FeedForward))
    for path, ffn in networks.items():
        is_only_network = f"{path.removesuffix('ffn')}beside" not in networks
        if ffn.width is not None and path.rsplit(".", 1)[-1] == "ffn" and is_only_network:
            yield path, ffn, ffn.width


class UnusualWidth(DesignRule):
    """d_ff / d_model is 4, or about 8/3 where gated."""

    code = "FFN001"
    severity = Severity.INFO
    title = "d_ff / d_model is not the usual ratio"
    year = 2025
    reason = (
        "A plain network is usually 4 times as wide as the stream; a gated one has three matrices, so 8/3 "
        "keeps the parameters, and 2.5 to 4 is what most models have. Small Qwen2.5 models (5.3 to 5.8), "
        "Falcon3 (7.5) and Gemma 1 (8) differ on purpose. Of Gemma 2 only the 27B has 8, the others 4, where "
        "a slide has 8 for all."
    )
    source = (
        f"GPT-3, arXiv:2005.14165 section 2.1 (confirmed); {SHAZEER}; shipped models by their configs "
        "(confirmed)"
    )
    spares = "experts of a mixture, which are narrow on purpose"
    evidence = "d_ff_ratio"
    of_width = True
    valid = (example(ffn="{kind: mlp, d_ff: 2048}"), example(ffn="{kind: glu, d_ff: 1408}"))
    invalid = (example(ffn="{kind: mlp, d_ff: 1536}"), example(ffn="{kind: glu, d_ff: 3072}"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Report ratios other than 4 (plain) or 2.5 to 4 (gated), unless FFN002 reports them."""
        width = case.model.d_model
        for path, ffn, d_ff in dense(case):
            ratio = d_ff / width
            least, most = (2.5, 4.0) if ffn.is_gated else (3.9, 4.1)
            # beyond LEAST and MOST it is FFN002's to report
            if not least <= ratio <= most and LEAST <= ratio <= MOST:
                kind, usual = ("gated", "2.5 to 4") if ffn.is_gated else ("plain", "4")
                message = f"d_ff {d_ff:,} = {ratio:.3g} x d_model {width:,} in a {kind} network"
                yield Finding(f"{path}.d_ff", message, ratio, usual)


class ExtremeWidth(DesignRule):
    """d_ff / d_model of a dense feed-forward network lies within the range of published models."""

    code = "FFN002"
    severity = Severity.WARNING
    title = "d_ff / d_model is outside of what models use"
    reason = (
        "Published models have d_ff / d_model between 1.5 (ModernBERT-base) and 8 in each matrix, language "
        "models 2.5 to 8. Outside a slip is likelier than a choice: gate and up counted as one (Gemma's "
        "paper prints 16 for 8, Qwen 1 writes both as intermediate_size), or a width of another model. It is "
        "no cliff: Kaplan's loss varies a few percent over a wide range of shapes."
    )
    source = (
        "Gemma, arXiv:2403.08295 Table 1 and its code: 8, where the paper's 16 counts gate and up "
        "(corrected); LaMDA, arXiv:2201.08239: 8 (confirmed); Kaplan, arXiv:2001.08361 Fig. 5; that 1 to 10 "
        "is flat is CS336's reading of it (corrected); ModernBERT: the defaults of transformers' class "
        "(confirmed)"
    )
    spares = "experts of a mixture, which are narrow on purpose"
    evidence = "d_ff_ratio"
    of_width = True
    known: ClassVar[Mapping[str, str]] = {
        "t5-11b": "d_ff 65,536 on a stream of 1,024, stated so in its config: 64"
    }
    valid = (example(ffn="{kind: mlp, d_ff: 2048}"), example(ffn="{kind: glu, d_ff: 4096}"))
    invalid = (example(ffn="{kind: glu, d_ff: 8192}"), example(ffn="{kind: mlp, d_ff: 512}"))

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every dense network with d_ff / d_model outside of 1.5 to 8."""
        width = case.model.d_model
        for path, _, d_ff in dense(case):
            ratio = d_ff / width
            if not LEAST <= ratio <= MOST:
                message = f"d_ff {d_ff:,} = {ratio:.3g} x d_model {width:,}"
                yield Finding(f"{path}.d_ff", message, ratio, "1.5 to 8")


class UngatedNetwork(DesignRule):
    """Feed-forward networks are gated."""

    code = "FFN003"
    severity = Severity.INFO
    title = "a feed-forward network without a gate"
    year = 2025
    reason = (
        "Most language models since 2022 gate their feed-forward network (SwiGLU, GeGLU), which had the "
        "better loss at equal parameters and FLOPs. StarCoder2, Nemotron-4 and Falcon do not."
    )
    source = (
        "Shazeer, arXiv:2002.05202 section 3 (id confirmed); PaLM, arXiv:2204.02311 Table 1; the exceptions "
        "by their configs"
    )
    spares = "experts of a mixture; only the first plain network is reported"
    of_text = True
    valid = (example(),)
    invalid = (example(ffn="{kind: mlp, d_ff: 2048}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the first network without a gate."""
        for path, ffn, _ in dense(case):
            if not ffn.is_gated:
                kind, activation = kind_of(ffn), ffn.activation_kind or ""
                yield Finding(f"{path}.kind", f"kind {kind} with {activation} has no gate", kind, "kind glu")
                return
