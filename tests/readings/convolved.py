"""Random attention and networks with short convolutions, and experts beside shared ones."""

from hypothesis import strategies as st

from archcli.modules import ConvolvedAttention, ConvolvedNetwork, QKNorm, Rope, SharedSinkExperts
from readings.mixers import NORMS, SHARPENED, SIZES, gates, masks, positions
from readings.outputs import BOOL, NUMBERS, maybe


@st.composite
def attention(draw):
    """Grouped-query attention with convolutions and profiles of biases."""
    own, kv_heads = draw(SIZES), draw(st.integers(1, 2))
    turned = draw(positions(own))
    return ConvolvedAttention(
        n_heads=kv_heads * draw(st.integers(1, 2)),
        n_kv_heads=kv_heads,
        head_dim=own,
        relative_rank=draw(SIZES),
        relative_extent=draw(SIZES),
        conv_kernel=draw(st.integers(1, 4)),
        v_head_dim=draw(maybe(SIZES)),
        bias=draw(BOOL),
        qk_norm=draw(maybe(st.builds(QKNorm, norm=NORMS))),
        clip=draw(maybe(NUMBERS)),
        scale=draw(maybe(NUMBERS)),
        temperature=draw(SHARPENED),
        **({"position": turned} if isinstance(turned, Rope) else {}),
        **draw(masks()),
        **draw(gates()),
    )


@st.composite
def beside_shared(draw, networks):
    """A mixture of these networks, shared ones among them."""
    n_experts = draw(SIZES)
    return SharedSinkExperts(
        n_experts=n_experts,
        n_shared=draw(st.integers(1, 3)),
        top_k=draw(st.integers(1, n_experts)),
        expert=draw(networks),
        scale=draw(NUMBERS),
    )


def networks(dense):
    """Mixtures of these networks, and both with a convolution behind them."""
    mixtures = beside_shared(dense)
    behind = st.builds(
        ConvolvedNetwork, network=dense | mixtures, conv_kernel=st.integers(1, 4), trained_scale=BOOL
    )
    return mixtures | behind
