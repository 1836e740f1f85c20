"""Rules of stability: bounds on logits and attention scores."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.modules import Mixer, settings
from archcli.modules.spec.base import find
from archcli.rules.base import Case, DesignRule, Finding, Severity, example

# parameters
LARGE = 10_000_000_000
HOLDING = frozenset({"qk_norm", "clip", "softcap"})
"""Fields of attention that bound its scores."""
WIDE = {"d_model": "8192", "n_layers": "64", "ffn": "{kind: glu, d_ff: 28672}", "vocab_size": "128256"}


class UnboundedLogits(DesignRule):
    """A large model bounds attention scores or logits: QK-norm, z-loss or softcap."""

    code = "STB001"
    severity = Severity.INFO
    title = "a large model without QK-norm, z-loss or softcap"
    year = 2025
    reason = (
        "Large models diverge when attention scores or output logits grow; QK-norm, a z-loss or a softcap "
        "bound them. Many do without: Llama has none of them. A well-known slide lists LLaMA-65B and Gemma 2 "
        "with QK-norm; neither has it, Gemma 2 has softcaps."
    )
    source = (
        "QK-norm: Henry et al., arXiv:2010.04245, Dehghani et al., arXiv:2302.05442, OLMo 2, "
        "arXiv:2501.00656 (confirmed); z-loss: PaLM, arXiv:2204.02311 (confirmed); softcap: Gemma 2, "
        "arXiv:2408.00118 (confirmed); LLaMA-65B and Gemma 2 by their code and configs (corrected)"
    )
    spares = "models below 10 billion parameters, encoders; clipped q, k and v (OLMo, MPT) bound scores, too"
    counts = True
    valid = (
        example(),
        example(
            **WIDE, attention="{kind: mha, n_heads: 64, qk_norm: {}, position: {kind: rope, theta: 500000}}"
        ),
    )
    invalid = (example(**WIDE, attention="{kind: mha, n_heads: 64, position: {kind: rope, theta: 500000}}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report a large model with attention and no bound on scores or logits."""
        model, params = case.model, case.totals["params"]
        scored = [path for path, facts in case.mixers if facts.has_scores]
        if not scored or not model.caches or params < LARGE or case.z_loss:
            return
        stable = any(HOLDING.intersection(mixer.facts().stability) for _, mixer in find(model, Mixer))
        if not stable and model.logit_softcap is None:
            message = f"{params:,} parameters without qk_norm, z_loss or softcap"
            yield Finding(scored[0], message, params, "one of them")


class UnusualSoftcap(DesignRule):
    """A softcap is at least 10."""

    code = "STB002"
    severity = Severity.WARNING
    title = "a softcap below 10"
    reason = (
        "cap tanh(s / cap) is nearly s while s is small beside the cap. Gemma 2 has 50 for scores and 30 for "
        "logits; below 10 ordinary scores are bent."
    )
    source = "Gemma 2, arXiv:2408.00118 section 2 (confirmed)"
    valid = (example(attention="{kind: mha, n_heads: 8, softcap: 50}"),)
    invalid = (example(attention="{kind: mha, n_heads: 8, softcap: 2}"),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every softcap below 10."""
        for path, cap in settings(case.model):
            if path.rsplit(".", 1)[-1] == "softcap" and cap is not None and cap < 10:
                yield Finding(path, f"softcap {cap:g}", cap, "30 or 50")
