"""What a training pass counts backward, row by row, worked out by hand.

Checks that tests call, and so do the mutants.

B 2 sequences, T 3 tokens, S 5 source tokens, D 8, V 50.
"""

from archcli.measure.passes import train_pass
from archcli.modules import (
    GLU,
    ConvFrontEnd,
    CrossAttention,
    DecoderStack,
    Embedding,
    Encoder,
    EncoderDecoder,
    EncoderStack,
    Group,
    Learned,
    MultiHeadAttention,
    PreNorm,
    RelativeBuckets,
    Sinusoidal,
)
from small import NORM, decoder

B, T, S, D, V = 2, 3, 5, 8, 50
HALF = {"norm": NORM, "final_norm": False}
READ = PreNorm(attention=MultiHeadAttention(n_heads=4, causal=False), ffn=GLU(d_ff=12), norm=NORM)
WRITE = PreNorm(
    attention=MultiHeadAttention(n_heads=4),
    cross_attention=CrossAttention(n_heads=4),
    ffn=GLU(d_ff=12),
    norm=NORM,
)
RELATIVE = {"score_bias": RelativeBuckets(n_buckets=6)}


def encoder_decoder(embedding, encoder, **shared):
    fields = {"vocab_size": V, "d_model": D, "norm": NORM, "embedding": embedding, "source_len": S}
    halves = {
        "encoder": EncoderStack(**HALF, **shared, groups=(Group(n_layers=2, layer=READ),), **encoder),
        "decoder": DecoderStack(**HALF, **shared, groups=(Group(n_layers=2, layer=WRITE),)),
    }
    return EncoderDecoder(**fields, **halves)


def gradients(model):
    """path -> {what gets a gradient: FLOPs of all parts that yield it}."""
    found = {}
    for row in train_pass(model, B, T).rows:
        own = found.setdefault(row.path, {})
        for gradient in (gradient for part in row.parts for gradient in part.backward):
            own[gradient.wrt] = own.get(gradient.wrt, 0) + gradient.flops
    return found


def check_a_tied_table():
    """Every token's gradient is added to the row of its id; the head's is a product.

    Where the two meet, nothing is counted.
    """
    for tied in (False, True):
        found = gradients(decoder(tied=tied))
        assert found["embedding.tokens"] == {"weight": B * T * D}
        assert found["lm_head"] == {0: 2 * B * T * D * V, 1 if tied else "weight": 2 * B * T * D * V}


def check_positions():
    """A table [T, D] serves all sequences: their gradients are added up, then each to its row.

    Ids and positions get none.
    """
    found = gradients(decoder(embedding=Embedding(position=Learned(max_seq_len=9, offset=2))))
    assert found["embedding.positions_rows"] == {}
    assert found["embedding.positions"] == {"weight": T * D}
    assert found["embedding.positions_add"] == {1: B * T * D}
    assert gradients(decoder(embedding=Embedding(position=Sinusoidal())))["embedding.positions_add"] == {}
    fixed = {"front_end": ConvFrontEnd(in_channels=6, d_model=D), "position": Sinusoidal()}
    assert gradients(encoder_decoder(Embedding(), fixed))["encoder.position_embedding_add"] == {}


def check_frozen():
    """A frozen table gets nothing, raw features get nothing; what lies behind them does."""
    front = {
        "front_end": ConvFrontEnd(in_channels=6, d_model=D),
        "position": Learned(max_seq_len=S, frozen=True),
    }
    found = gradients(encoder_decoder(Embedding(tied=True), front))
    assert found["encoder.position_embedding"] == found["encoder.position_embedding_add"] == {}
    assert found["encoder.front_end.conv1"] == {"weight": 2 * B * D * 2 * S * 6 * 3, "bias": B * D * 2 * S}
    assert found["encoder.front_end.conv2"] == {
        **dict.fromkeys((0, "weight"), 2 * B * D * S * D * 3),
        "bias": B * D * S,
    }
    frozen = encoder_decoder(
        Embedding(), {"vocab_size": 7, "position": Learned(max_seq_len=S, frozen=True), "input_norm": NORM}
    )
    assert gradients(frozen)["source"] == {"weight": B * S * D}


def check_a_shared_source():
    """The source's ids read the same table, and add to the same rows.

    Every layer adds its scores' gradients to the shared bias.
    """
    found = gradients(encoder_decoder(Embedding(tied=True), {}, **RELATIVE))
    assert found["source"] == {1: B * S * D}
    assert found["encoder.score_bias"] == {"weight": 4 * S * S}
    assert found["encoder.layers.0.attention.attend"][4] == B * 4 * S * S
    assert found["decoder.layers.0.attention.attend"][4] == B * 4 * (1 + 2 + 3)
    assert 4 not in found["decoder.layers.0.cross_attention.attend"]


def check_token_types():
    """One vector for all tokens of a kind; what is added to a fresh vector meets nothing."""
    model = Encoder(
        vocab_size=V,
        d_model=D,
        norm=NORM,
        embedding=Embedding(token_types=2),
        groups=(Group(n_layers=1, layer=READ),),
    )
    found = gradients(model)
    assert found["embedding.token_types"] == {"weight": B * T * D}
    assert found["embedding.token_types_add"] == {}
    assert found["layers.0.attention_residual"] == {0: B * T * D}


CHECKS = {
    name.removeprefix("check_"): check
    for name, check in sorted(globals().items())
    if name.startswith("check_")
}
