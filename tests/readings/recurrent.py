"""Random recurrent mixers, small enough that all readings of one take milliseconds."""

from hypothesis import strategies as st

from archcli.modules import NoPosition, RMSNorm
from archcli.modules.recurrent.decaying import LightningAttention, Retention
from archcli.modules.recurrent.delta_net import GatedDeltaNet, KimiDeltaAttention
from archcli.modules.recurrent.gated_norm import GatedLayerNorm, GatedRMSNorm
from archcli.modules.recurrent.mamba import Mamba, Mamba2
from archcli.modules.recurrent.mlstm import MLSTM
from archcli.modules.recurrent.rg_lru import RGLRU
from archcli.modules.recurrent.short_conv import ShortConvolution
from readings.outputs import BOOL, maybe

SIZES = st.integers(1, 5)
TAPS = st.integers(1, 4)


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
        conv_kernel=draw(TAPS),
        chunk=draw(SIZES),
        bias=draw(BOOL | st.sampled_from([("in",), ("out",)])),
        conv_bias=draw(BOOL),
        in_multiplier=draw(st.sampled_from([1.0, 0.6])),
        multipliers=draw(maybe(st.just((0.5, 1.5, 0.7, 1.2, 0.9)))),
        step_limit=draw(maybe(st.sampled_from([(0.01, 0.5), (0.01, None)]))),
        norm=draw(maybe(gated_norms([1, n_groups]))),
    )


@st.composite
def mamba(draw):
    """Mamba in one set of channels or in heads."""
    n_heads = draw(maybe(st.integers(1, 2)))
    return Mamba(
        d_inner=(n_heads or 1) * draw(SIZES),
        state=draw(SIZES),
        dt_rank=draw(SIZES),
        n_heads=n_heads,
        conv_kernel=draw(TAPS),
        conv_bias=draw(BOOL),
        bias=draw(BOOL),
        dt_norm=draw(maybe(st.builds(RMSNorm, weight=BOOL))),
    )


@st.composite
def delta_nets(draw):
    """Gated delta nets, some heads of values for each of keys."""
    n_keys = draw(st.integers(1, 2))
    return GatedDeltaNet(
        n_key_heads=n_keys,
        n_value_heads=n_keys * draw(st.integers(1, 2)),
        key_head_dim=draw(SIZES),
        value_head_dim=draw(SIZES),
        conv_kernel=draw(TAPS),
        chunk=draw(SIZES),
        neg_eigval=draw(BOOL),
    )


@st.composite
def rg_lrus(draw):
    """RG-LRU of blocks that divide its width."""
    n_blocks = draw(st.integers(1, 3))
    return RGLRU(width=n_blocks * draw(SIZES), n_blocks=n_blocks, conv_kernel=draw(TAPS))


WIDE = {"n_heads": st.integers(1, 3), "key_head_dim": SIZES, "value_head_dim": SIZES, "chunk": SIZES}
KIMI = st.builds(
    KimiDeltaAttention,
    n_heads=st.integers(1, 3),
    head_dim=SIZES,
    conv_kernel=TAPS,
    chunk=SIZES,
    gate_rank=maybe(SIZES),
)
LIGHTNING = st.builds(LightningAttention, n_heads=st.integers(1, 3), head_dim=SIZES, chunk=SIZES, bias=BOOL)
RETENTION = st.builds(
    Retention,
    **WIDE,
    bias=BOOL,
    decay=st.sampled_from(["fixed", "token"]),
    position=st.just(NoPosition()),
)
CONVOLUTION = st.builds(ShortConvolution, conv_kernel=TAPS, bias=BOOL, conv_bias=BOOL)
XLSTM = st.builds(MLSTM, **WIDE, bias=BOOL)
MIXERS = st.one_of(mamba2(), mamba(), delta_nets(), rg_lrus(), KIMI, LIGHTNING, RETENTION, CONVOLUTION, XLSTM)
