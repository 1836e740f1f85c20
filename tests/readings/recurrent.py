"""Random recurrent mixers, small enough that all readings of one take milliseconds."""

from hypothesis import strategies as st

from archcli.modules.recurrent.gated_norm import GatedLayerNorm, GatedRMSNorm
from archcli.modules.recurrent.mamba2 import Mamba2
from readings.outputs import BOOL, maybe

SIZES = st.integers(1, 5)


def gated_norms(groups):
    """A norm with a gate, of one of these numbers of groups."""
    options = {"gate": st.sampled_from(["before", "after"]), "groups": st.sampled_from(groups)}
    return st.builds(GatedRMSNorm, weight=BOOL, **options) | st.builds(GatedLayerNorm, bias=BOOL, **options)


@st.composite
def mamba2(draw):
    """Mamba-2 of some groups, with or without norm and biases."""
    n_groups = draw(st.integers(1, 2))
    return Mamba2(
        n_heads=n_groups * draw(st.integers(1, 2)),
        head_dim=draw(SIZES),
        state=draw(SIZES),
        n_groups=n_groups,
        conv_kernel=draw(st.integers(1, 4)),
        chunk=draw(SIZES),
        bias=draw(BOOL),
        conv_bias=draw(BOOL),
        step_limit=draw(maybe(st.just((0.01, 0.5)))),
        norm=draw(maybe(gated_norms([1, n_groups]))),
    )


MIXERS = mamba2()
