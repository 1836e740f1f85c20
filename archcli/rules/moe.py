"""Rules of mixtures of experts: their number, width, and active share."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.errors import Problem
from archcli.modules import MixtureOfExperts
from archcli.modules.spec.base import find
from archcli.rules.base import Case, DesignRule, Finding, Severity, example

MOE = "{{kind: moe, n_experts: {}, top_k: {}, expert: {{kind: glu, d_ff: {}}}}}"
ACTIVE = "active-share"
"""The cause of findings on the number of active experts."""
TIAN = "Tian et al., arXiv:2507.17702 (abstract confirmed)"


class TopKAboveExperts(DesignRule):
    """top_k is at most n_experts."""

    code = "MOE001"
    severity = Severity.ERROR
    title = "top_k is more than n_experts"
    reason = "A token cannot visit an expert twice."
    source = "Shazeer et al., arXiv:1701.06538 section 2.1 (id confirmed)"
    valid = (example(ffn=MOE.format(8, 2, 1408)),)
    invalid = (example(ffn=MOE.format(4, 8, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every mixture whose top_k is larger than n_experts."""
        for path, moe in find(case.model, MixtureOfExperts):
            k, n = moe.top_k, moe.n_experts
            if k > n:
                message = f"top_k {k} of n_experts {n}"
                hint = "are the two exchanged?"
                yield Finding(f"{path}.top_k", message, k, f"below {n}", hint, cause=ACTIVE)

    def reports_conflict(self, conflict: Problem) -> bool:
        """Whether the modules found the conflict that this rule reports: top_k above n_experts."""
        return conflict.code == "top-k-within-experts"


class AllExpertsActive(DesignRule):
    """top_k is below n_experts."""

    code = "MOE002"
    severity = Severity.WARNING
    title = "top_k equals n_experts"
    reason = (
        "With top_k equal to n_experts every token visits every expert: the router costs, and saves nothing."
    )
    source = "Shazeer et al., arXiv:1701.06538 section 2: sparsity is what saves computation (id confirmed)"
    valid = (example(ffn=MOE.format(8, 2, 1408)),)
    invalid = (example(ffn=MOE.format(4, 4, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every mixture whose top_k equals n_experts."""
        for path, moe in find(case.model, MixtureOfExperts):
            if moe.top_k == moe.n_experts:
                k, n = moe.top_k, moe.n_experts
                message = f"top_k {k} of n_experts {n}: every token visits every expert"
                yield Finding(f"{path}.top_k", message, k, f"below {n}", cause=ACTIVE)


class ActiveShare(DesignRule):
    """The active share of a mixture of experts, and the dense model it compares to."""

    code = "MOE003"
    severity = Severity.INFO
    title = "the active share of a mixture of experts, and its dense equivalent"
    reason = (
        "No formula gives the dense model that a mixture equals. Two heuristics are in use: the geometric "
        "mean of total and active parameters (folklore, no derivation seen) and 2 to 3 times the active ones "
        "(said in lectures, no source found). Measured once, 0.85B active of 17.5B matched 6.1B dense, seven "
        "times the active ones, where the mean says 3.9B."
    )
    source = f"{TIAN}; Li et al., arXiv:2506.12119 (abstract, confirmed); both heuristics are folklore"
    evidence = "active_share"
    counts = True
    valid = (example(),)
    invalid = (example(ffn=MOE.format(8, 2, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report the active share once per model with experts."""
        first = next(iter(find(case.model, MixtureOfExperts)), None)
        if first is not None:
            total, active = case.totals["params"], case.totals["active_params"]
            # folklore, as `reason` says: shown as a help, never compared with anything
            mean = _short_count((total * active) ** 0.5)
            multiple = f"2 to 3 x active {_short_count(2 * active)} to {_short_count(3 * active)}"
            help_ = f"heuristics of the dense equivalent: sqrt(total x active) {mean}, {multiple}"
            path, moe = first
            shares = (
                f"{_short_count(active)} of {_short_count(total)} parameters are active, {active / total:.1%}"
            )
            message = f"top_k {moe.top_k} of n_experts {moe.n_experts}: {shares}"
            yield Finding(f"{path}.top_k", message, active / total, "", help_, cause=ACTIVE)


class Granularity(DesignRule):
    """Experts are narrow: a granularity 2 d_model / d_ff of 4 to 16."""

    code = "MOE004"
    severity = Severity.INFO
    title = "the granularity of experts is far from measured optima"
    reason = (
        "Granularity, 2 d_model / d_ff of one expert, is how finely a network is cut into experts: narrow "
        "experts, more of them chosen. Measured optima are about 8 to 12; Mixtral has 0.57, DeepSeek-V3 7, "
        "Qwen3-30B-A3B 5.3."
    )
    source = (
        f"{TIAN}: about 8 to 12; that it is 2 d_model / d_ff: secondary; DeepSeekMoE, arXiv:2401.06066 (id "
        "confirmed)"
    )
    spares = "granularity of 4 to 16"
    valid = (example(ffn=MOE.format(64, 8, 128)), example())
    invalid = (example(ffn=MOE.format(8, 2, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Report every mixture with a granularity outside of 4 to 16."""
        for path, moe in find(case.model, MixtureOfExperts):
            width, d_ff = case.model.d_model, moe.expert.width
            granularity = 0 if d_ff is None else 2 * width / d_ff
            if granularity and not 4 <= granularity <= 16:
                message = f"d_ff {d_ff:,} of an expert, d_model {width:,}: granularity {granularity:.3g}"
                yield Finding(f"{path}.expert.d_ff", message, granularity, "4 to 16, at best 8 to 12")


def _short_count(n: float) -> str:
    return f"{n / 1e9:.3g}B" if n >= 1e9 else f"{n / 1e6:.3g}M"
