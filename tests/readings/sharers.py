"""Decoders whose layers share: keys and values of earlier layers, per-layer embeddings, residual streams."""

from hypothesis import strategies as st

from archcli.modules import (
    GLU,
    MLP,
    AltUp,
    Decoder,
    GELUTanh,
    Group,
    GroupedQueryAttention,
    HyperConnected,
    Indexer,
    LowRankHyperConnected,
    MixtureOfExperts,
    MultiHeadLatentAttention,
    NGramStreams,
    PerLayerEmbedding,
    PreNorm,
    RMSNorm,
    Rope,
    Router,
    Sandwich,
)

BOOL = st.booleans()
NORM = RMSNorm()
BARE = RMSNorm(weight=False)


def sharing_attention(lender, *, window, width, keys):
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
        mixer = sharing_attention(lender, window=(3, None)[place], width=widths[place], keys=keys)
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


SIZES = st.integers(1, 4)


@st.composite
def of_ngrams(draw):
    """N-grams of two or three tokens that are added to streams."""
    longest, hashes = draw(st.integers(2, 3)), draw(st.integers(1, 2))
    number = hashes * (longest - 1)
    return NGramStreams(
        width=number * draw(SIZES),
        tables=tuple(draw(st.lists(st.integers(1, 9), min_size=number, max_size=number))),
        multipliers=(3, 5, 7)[:longest],
        boundary=draw(st.integers(0, 2)),
        pad_to=draw(SIZES),
        conv_kernel=draw(st.integers(2, 3)),
        norm=NORM,
    )


@st.composite
def of_streams(draw):
    """A function from a layer's fields to one on several streams, or on one."""
    if draw(BOOL):
        return lambda **fields: PreNorm(norm=NORM, **fields)
    if draw(BOOL):
        low = {"n_streams": draw(st.integers(2, 3)), "rank": draw(SIZES)}
        ngrams = draw(st.none() | of_ngrams())
        return lambda **fields: LowRankHyperConnected(norm=NORM, ngrams=ngrams, **low, **fields)
    given = {"n_streams": draw(st.integers(2, 3)), "magnitude": draw(st.sampled_from([1.0, 1.5]))}
    bare = draw(st.sampled_from([BARE, NORM]))
    return lambda **fields: HyperConnected(norm=NORM, stream_norm=bare, **given, **fields)


@st.composite
def choosing(draw):
    """A function from the layer whose index is read, or None, to attention."""
    index = Indexer(top_k=draw(SIZES), n_heads=draw(SIZES), head_dim=65, norm=NORM)
    turned = Rope(rotates=draw(st.sampled_from(["first", "last"])))
    if draw(BOOL):
        fields = {"n_heads": 2, "n_kv_heads": 1, "head_dim": 4, "position": turned, "index": index}
        return lambda source: GroupedQueryAttention(**fields, index_from=source)
    form = draw(st.sampled_from(["naive", "absorbed"]))
    ranks = {"kv_lora_rank": 3, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2, "v_head_dim": draw(SIZES)}
    fields = {
        "n_heads": 2,
        "q_lora_rank": draw(st.none() | SIZES),
        "position": turned,
        "index": index,
        "form": form,
    }
    return lambda source: MultiHeadLatentAttention(**ranks, **fields, latent_norm=NORM, index_from=source)


@st.composite
def choosers(draw):
    """Layers with an index and later ones that read what it has chosen, on one stream or several."""
    layer, attention, own = draw(of_streams()), draw(choosing()), draw(st.integers(1, 2))
    network, source = MLP(d_ff=draw(SIZES)), draw(st.integers(0, own - 1))
    return Decoder(
        vocab_size=draw(st.integers(2, 11)),
        d_model=draw(st.integers(2, 8)),
        norm=NORM,
        groups=(
            Group(n_layers=own, layer=layer(attention=attention(None), ffn=network)),
            Group(n_layers=draw(st.integers(1, 2)), layer=layer(attention=attention(source), ffn=network)),
        ),
    )
