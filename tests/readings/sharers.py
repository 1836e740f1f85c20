"""Decoders whose layers share: keys and values of earlier layers, per-layer embeddings, residual streams."""

from hypothesis import strategies as st

from archcli.modules import (
    GLU,
    AltUp,
    Decoder,
    GELUTanh,
    Group,
    GroupedQueryAttention,
    MixtureOfExperts,
    PerLayerEmbedding,
    RMSNorm,
    Rope,
    Router,
    Sandwich,
)

BOOL = st.booleans()
NORM = RMSNorm()
BARE = RMSNorm(weight=False)


def attention(lender, *, window, width, keys):
    """Grouped-query attention, its keys its own or those of layer `lender`."""
    own = {"kv_from": lender} if lender is not None else {"v_norm": BARE, "values": keys}
    return GroupedQueryAttention(
        n_heads=2, n_kv_heads=1, head_dim=width, window=window, position=Rope(), scale=1.0, **own
    )


@st.composite
def layers(draw):
    """A function from a lender to one layer, the fields drawn once for all."""
    streams, gated = draw(BOOL), draw(BOOL)
    mixture = MixtureOfExperts(
        n_experts=3,
        top_k=2,
        expert=GLU(d_ff=draw(st.integers(1, 4))),
        router=Router(norm=NORM, expert_scale=draw(BOOL)),
        expert_norm=draw(st.sampled_from([None, NORM])),
    )
    fields = {
        "ffn": GLU(d_ff=draw(st.integers(1, 6)), sparsity=draw(st.sampled_from([0.0, 0.6]))),
        "norm": NORM,
        "laurel_rank": draw(st.none() | st.integers(1, 3)),
        "beside": draw(st.sampled_from([None, mixture])),
        "per_layer_gate": GELUTanh() if gated else None,
    }
    fields |= {"inputs": draw(st.integers(2, 3)), "active": draw(st.integers(0, 1))} if streams else {}
    fields |= {} if streams else {"stored_scale": draw(BOOL)}
    keys, widths = draw(st.sampled_from(["projected", "keys"])), (2, draw(st.sampled_from([2, 4])))

    def layer(place, lender):
        mixer = attention(lender, window=(3, None)[place], width=widths[place], keys=keys)
        return (AltUp if streams else Sandwich)(attention=mixer, **fields)

    return layer, gated


@st.composite
def sharers(draw):
    """Windowed and global layers in turn, the last of which read the keys and values of earlier ones."""
    (layer, gated), own, late = draw(layers()), draw(st.sampled_from([2, 4])), draw(st.sampled_from([2, 4]))
    lenders = [draw(st.sampled_from(range(place, own, 2))) for place in (0, 1)]
    table = PerLayerEmbedding(width=draw(st.integers(1, 3)), vocab_size=draw(st.integers(1, 9)), norm=NORM)
    return Decoder(
        vocab_size=draw(st.integers(2, 11)),
        d_model=draw(st.integers(2, 8)),
        norm=NORM,
        per_layer_embedding=table if gated else None,
        groups=(
            Group(n_layers=own, pattern=(layer(0, None), layer(1, None))),
            Group(n_layers=late, pattern=(layer(0, lenders[0]), layer(1, lenders[1]))),
        ),
    )
