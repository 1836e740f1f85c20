"""Rules of mixtures of experts: how many, how fine, how many at once."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.measure.passes import find
from archcli.modules import GLU, MLP, MixtureOfExperts
from archcli.rules.base import Case, Finding, Fix, Rule, Severity, example

MOE = "{{kind: moe, n_experts: {}, top_k: {}, expert: {{kind: glu, d_ff: {}}}}}"
TIAN = "Tian et al., arXiv:2507.17702 (abstract, confirmed)"


class MoreThanThereAre(Rule):
    """A token visits no more experts than there are."""

    code = "MOE001"
    severity = Severity.ERROR
    title = "top_k is more than n_experts"
    reason = "A token cannot visit an expert twice."
    source = "Shazeer et al., arXiv:1701.06538 section 2.1 (confirmed id)"
    claims = frozenset({"top_k"})
    valid = (example(ffn=MOE.format(8, 2, 1408)),)
    invalid = (example(ffn=MOE.format(4, 8, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """What the modules say of top_k."""
        for path, moe in find(case.model, MixtureOfExperts):
            where = f"{path}.top_k"
            if moe.top_k > moe.n_experts:
                message = f"top_k {moe.top_k} of {moe.n_experts} experts"
                yield Finding(where, message, moe.top_k, f"at most {moe.n_experts}", fixes=(Fix(where, moe.n_experts),))
        told = {f"{path}.top_k" for path, moe in find(case.model, MixtureOfExperts) if moe.top_k > moe.n_experts}
        yield from (
            Finding(each.path, each.what, help=each.hint) for each in case.misfits if each.path.endswith("top_k") and each.path not in told
        )


class AllExpertsActive(Rule):
    """Fewer experts work than there are."""

    code = "MOE002"
    severity = Severity.WARNING
    title = "every token visits every expert"
    reason = "With top_k equal to n_experts nothing is sparse: the router costs and saves nothing."
    source = "Shazeer et al., arXiv:1701.06538 section 2: sparsity is what saves computation"
    valid = (example(ffn=MOE.format(8, 2, 1408)),)
    invalid = (example(ffn=MOE.format(4, 4, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """top_k equal to n_experts."""
        for path, moe in find(case.model, MixtureOfExperts):
            if moe.top_k == moe.n_experts:
                yield Finding(f"{path}.top_k", f"all {moe.n_experts} experts work on every token", moe.top_k, f"below {moe.n_experts}")


class ActiveShare(Rule):
    """The active share of a mixture, and what dense model it compares to."""

    code = "MOE003"
    severity = Severity.INFO
    title = "active share and dense-equivalent size"
    reason = (
        "No rule gives the dense model that a mixture equals. Two heuristics bracket it: the geometric mean of total and active "
        "parameters (folklore, "
        "no derivation seen) and 2 to 3 times the active ones (no source found). Measured once, 0.85B active of 17.5B matched "
        "6.1B dense, where the mean says 3.9B."
    )
    source = f"{TIAN}; Li et al., arXiv:2506.12119 (abstract, confirmed); both heuristics are folklore, not found in a paper"
    evidence = "active_share"
    counts = True
    valid = (example(),)
    invalid = (example(ffn=MOE.format(8, 2, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Once for a model with experts."""
        first = next(iter(find(case.model, MixtureOfExperts)), None)
        if first is not None:
            total, active = case.totals["params"], case.totals["active_params"]
            sizes = sorted([(total * active) ** 0.5, 2 * active, 3 * active])
            expected = f"compares to some {_billions(sizes[0])} to {_billions(sizes[-1])} dense, by heuristics"
            yield Finding(
                f"{first[0]}.top_k", f"{_billions(active)} of {_billions(total)} are active, {active / total:.1%}", active / total, expected
            )


class Granularity(Rule):
    """Experts are a fraction of a dense network."""

    code = "MOE004"
    severity = Severity.INFO
    title = "how fine the experts are"
    reason = (
        "Granularity is how many experts of this width make a usual dense network (2 d_model / d_ff of an expert counts a dense "
        "one of 4 d_model halved); measured optima are about 8 to 12."
    )
    source = f"{TIAN}: granularity optimum about 8 to 12; DeepSeekMoE, arXiv:2401.06066 section 3.1 (confirmed id)"
    valid = (example(ffn=MOE.format(64, 8, 128)), example())
    invalid = (example(ffn=MOE.format(8, 2, 1408)),)

    def check(self, case: Case) -> Iterator[Finding]:
        """Every mixture with a granularity outside of 4 to 16."""
        for path, moe in find(case.model, MixtureOfExperts):
            if isinstance(moe.expert, MLP | GLU):
                grain = 2 * case.model.d_model / moe.expert.d_ff
                if not 4 <= grain <= 16:  # noqa: PLR2004
                    yield Finding(f"{path}.expert.d_ff", f"granularity {grain:.3g}: experts of {moe.expert.d_ff:,}", grain, "8 to 12")


def _billions(n: float) -> str:
    return f"{n / 1e9:.3g}B" if n >= 1e9 else f"{n / 1e6:.3g}M"  # noqa: PLR2004
