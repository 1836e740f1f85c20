"""Branches side by side: their names and paths, and values that contradict each other."""

import pytest

from archcli.errors import ArchError
from archcli.measure.passes import forward_pass
from archcli.modules import (
    MLP,
    LinearAttention,
    Mamba2,
    MixtureOfExperts,
    MultiHeadAttention,
    ParallelMixer,
    PreNorm,
    RMSNorm,
    SharedSinkExperts,
)
from zoo import model

MHA, SSD = MultiHeadAttention(n_heads=4), Mamba2(n_heads=4, head_dim=6, state=5)


def parallel(*branches):
    return ParallelMixer(branches=branches)


def test_branches_are_called_by_their_headings():
    spec = model(PreNorm(norm=RMSNorm(), mixer=parallel(MHA, SSD, LinearAttention(n_heads=4))), n_layers=1)
    steps = {row.path.split(".")[3] for row in forward_pass(spec, 1, 4).rows if ".mixer." in row.path}
    assert steps == {"attention", "recurrent", "attention_1", "recurrent_add", "attention_1_add"}


def test_members_stand_at_their_own_paths():
    nested = parallel(MHA, parallel(SSD, MHA))
    paths = [path for path, _ in nested.members("mixer")]
    assert paths == ["mixer.branches.0", "mixer.branches.1.branches.0", "mixer.branches.1.branches.1"]


def test_facts_are_those_of_the_branch_with_scores():
    facts = parallel(SSD, MHA).facts(32)
    assert (facts.kind, facts.n_heads, facts.recurrence) == ("mamba2 + mha", 4, SSD.facts().recurrence)


EXPERTS = {"n_experts": 4, "top_k": 2, "expert": MLP(d_ff=6)}
CONTRADICTIONS = {
    "some branches are causal": lambda: parallel(MHA, MultiHeadAttention(n_heads=4, causal=False)),
    "must have at least 2 entries": lambda: parallel(MHA),
    "latent_bias without latent": lambda: MixtureOfExperts(**EXPERTS, latent_bias=True),
    "an expert cannot itself be a mixture": lambda: MixtureOfExperts(
        n_experts=2, top_k=1, expert=SharedSinkExperts(**EXPERTS, n_shared=1)
    ),
    "least step 0.5 is above the most": lambda: Mamba2(n_heads=4, head_dim=6, state=5, step_limit=(0.5, 0.1)),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_what_contradicts_itself_is_refused(what):
    with pytest.raises(ArchError, match=what):
        CONTRADICTIONS[what]()
