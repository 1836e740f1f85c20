"""Random attention and networks with short convolutions, experts beside shared ones, routers that hand on."""

from hypothesis import strategies as st

from archcli.modules import (
    GLU,
    CarriedExperts,
    CarriedRouting,
    CompressedAttention,
    ConvolvedAttention,
    ConvolvedNetwork,
    Decoder,
    Group,
    QKNorm,
    Rope,
    SharedSinkExperts,
)
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
def compressed(draw):
    """Compressed convolutional attention."""
    own, kv_heads = 2 * draw(SIZES), draw(st.integers(1, 2))
    turned = draw(positions(own))
    return CompressedAttention(
        n_heads=kv_heads * draw(st.integers(1, 2)),
        n_kv_heads=kv_heads,
        head_dim=own,
        depthwise_kernel=draw(st.integers(1, 3)),
        grouped_kernel=draw(st.integers(1, 3)),
        bias=draw(BOOL),
        **({"position": turned} if isinstance(turned, Rope) else {}),
        **draw(masks()),
        **draw(gates()),
    )


@st.composite
def carriers(draw):
    """A decoder of layers whose routers hand on what they have seen, the first of which gets nothing."""
    width, expert, norm = draw(SIZES), draw(st.builds(GLU, d_ff=SIZES)), draw(NORMS)
    attention, n_experts = draw(compressed()), draw(SIZES)

    def layer(*, first):
        ffn = CarriedExperts(n_experts=n_experts, expert=expert, router_width=width, first=first, norm=norm)
        return CarriedRouting(attention=attention, ffn=ffn, norm=norm)

    groups = (
        Group(n_layers=1, layer=layer(first=True)),
        Group(n_layers=draw(st.integers(1, 3)), layer=layer(first=False)),
    )
    return Decoder(
        vocab_size=draw(st.integers(2, 11)), d_model=draw(st.integers(2, 8)), norm=norm, groups=groups
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
