"""Random mixers and networks that carry a state without heads."""

from hypothesis import strategies as st

from archcli.modules import RGLRU, RWKV4, LayerNorm, Mamba, RMSNorm, RWKVChannelMix
from readings.outputs import BOOL, maybe

SIZES, TAPS = st.integers(1, 5), st.integers(1, 4)
NORMS = st.builds(RMSNorm, weight=BOOL) | st.builds(LayerNorm, bias=BOOL)


@st.composite
def mamba(draw):
    """Mamba-1 with or without heads, norms and biases."""
    n_heads = draw(maybe(st.integers(1, 3)))
    return Mamba(
        d_inner=(n_heads or 1) * draw(SIZES),
        n_heads=n_heads,
        state=draw(SIZES),
        dt_rank=draw(maybe(SIZES)),
        conv_kernel=draw(TAPS),
        conv_bias=draw(BOOL),
        bias=draw(BOOL),
        dt_norm=draw(maybe(NORMS)),
    )


@st.composite
def rg_lru(draw):
    """RG-LRU of some blocks."""
    n_blocks = draw(st.integers(1, 3))
    return RGLRU(n_blocks=n_blocks, width=n_blocks * draw(SIZES), conv_kernel=draw(TAPS))


MIXERS = mamba() | rg_lru() | st.builds(RWKV4, width=maybe(SIZES))
CHANNEL_MIXES = st.builds(RWKVChannelMix, d_ff=SIZES)
