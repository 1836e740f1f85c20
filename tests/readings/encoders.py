"""Random encoders and encoder-decoders.

Attention to both sides, across, and over features, with what only they have.
"""

from hypothesis import strategies as st

from archcli.modules import (
    ConvFrontEnd,
    CrossAttention,
    DecoderStack,
    Embedding,
    Encoder,
    EncoderDecoder,
    EncoderStack,
    Group,
    Head,
    Learned,
    LinearAttention,
    MaskedHead,
    MultiHeadAttention,
    NoPosition,
    PostNorm,
    PreNorm,
    RelativeBuckets,
    RelativeKey,
    ResidualPostNorm,
    Sandwich,
    Sinusoidal,
    WindowedGlobal,
)
from readings.architectures import ACTIVATIONS, DENSE, blocks, decoders
from readings.convolved import carriers
from readings.mixers import NORMS, SIZES, heads, positions
from readings.outputs import BOOL, NUMBERS, maybe
from readings.sharers import choosers, sharers
from readings.sharing import sharing

BANDS = maybe(st.builds(WindowedGlobal, window=SIZES, n_global=st.integers(0, 3)))


@st.composite
def both_sides(draw, d_model):
    """Attention to all, or to a band around the query and some global tokens; softmax, relu, or linear."""
    n_heads, own = draw(heads(d_model))
    width = own or d_model // n_heads
    position = draw(positions(width))
    fields = {
        "n_heads": n_heads,
        "head_dim": own,
        "causal": False,
        "bias": draw(BOOL),
        "v_head_dim": draw(maybe(SIZES)),
    }
    if position.kind != "alibi" and draw(st.integers(0, 2)) == 0:
        return LinearAttention(
            **fields, position=position, features=draw(st.sampled_from(["elu", "softmax"]))
        )
    placed = draw(st.just(position) | st.builds(RelativeKey, max_distance=SIZES))
    return MultiHeadAttention(
        **fields, position=placed, sparsity=draw(BANDS), normalizer=draw(st.sampled_from(["softmax", "relu"]))
    )


@st.composite
def readers(draw, d_model):
    """One layer of an encoder."""
    cls = draw(st.sampled_from([PreNorm, PostNorm, Sandwich, ResidualPostNorm]))
    return cls(attention=draw(both_sides(d_model)), ffn=draw(DENSE), norm=draw(NORMS))


def added(d_model, longest):
    """What is added to embeddings per position: nothing, a table, or sines where they come in pairs."""
    tables = st.builds(Learned, max_seq_len=st.just(longest), frozen=BOOL)
    return st.one_of([st.just(NoPosition()), tables, *([st.just(Sinusoidal())] if d_model % 2 == 0 else [])])


@st.composite
def encoders(draw):
    """BERT and its kin: token types, a pooler, a classifier or a head that guesses masked tokens."""
    d_model = draw(st.integers(1, 8))
    masked = draw(maybe(st.builds(MaskedHead, activation=ACTIVATIONS, norm=NORMS)))
    return Encoder(
        vocab_size=draw(st.integers(2, 11)),
        d_model=d_model,
        norm=draw(NORMS),
        final_norm=draw(BOOL),
        embedding=Embedding(
            tied=masked is not None and draw(BOOL),
            position=draw(added(d_model, 16)),
            token_types=draw(st.integers(0, 2)),
            norm=draw(maybe(NORMS)),
        ),
        groups=(Group(n_layers=draw(st.integers(1, 2)), layer=draw(readers(d_model))),),
        pooler=masked is None and draw(BOOL),
        n_labels=None if masked else draw(maybe(SIZES)),
        head=masked,
    )


@st.composite
def halves(draw, d_model):
    """Encoder and decoder layers of an encoder-decoder, the decoder's with cross attention.

    A bias on scores in either, or in none.
    """
    n_heads, own = draw(heads(d_model))
    shared = {"n_heads": n_heads, "head_dim": own}
    cross = CrossAttention(
        **shared, n_kv_heads=draw(maybe(st.just(1))), bias=draw(BOOL), v_head_dim=draw(maybe(SIZES))
    )
    bias = draw(maybe(st.builds(RelativeBuckets, n_buckets=st.sampled_from([4, 6]), bidirectional=BOOL)))
    if bias is None:
        write = draw(blocks(d_model).filter(lambda block: block.kind != "parallel"))
        return draw(readers(d_model)), write.replace(cross_attention=cross), None
    read = PreNorm(attention=MultiHeadAttention(**shared, causal=False), ffn=draw(DENSE), norm=draw(NORMS))
    write = PreNorm(
        attention=MultiHeadAttention(**shared, softcap=draw(maybe(NUMBERS))),
        ffn=draw(DENSE),
        norm=draw(NORMS),
    )
    return read, write.replace(cross_attention=cross), bias


@st.composite
def encoder_decoders(draw):
    """T5, Marian, Whisper and their kin: one table or two, or features in place of source tokens."""
    d_model = draw(st.integers(1, 8))
    read, write, bias = draw(halves(d_model))
    front = draw(
        maybe(st.builds(ConvFrontEnd, in_channels=SIZES, d_model=st.just(d_model), activation=ACTIVATIONS))
    )
    shared = {"norm": draw(NORMS), "score_bias": bias, "final_norm": draw(BOOL)}
    return EncoderDecoder(
        vocab_size=draw(st.integers(2, 11)),
        d_model=d_model,
        norm=draw(NORMS),
        source_len=None if front is None else draw(maybe(SIZES)),
        embedding=Embedding(
            tied=draw(BOOL),
            position=draw(added(d_model, 20)),
            scale=draw(st.sampled_from([None, "sqrt_d_model"])),
        ),
        encoder=EncoderStack(
            **shared,
            front_end=front,
            vocab_size=draw(maybe(SIZES)) if front is None else None,
            position=draw(added(d_model, 16)),
            input_norm=draw(maybe(NORMS)),
            groups=(Group(n_layers=draw(st.integers(1, 2)), layer=read),),
        ),
        decoder=DecoderStack(**shared, groups=(Group(n_layers=draw(st.integers(1, 2)), layer=write),)),
        head=draw(st.none() | st.builds(Head, bias=BOOL, scale=st.sampled_from([1.0, 0.5]))),
    )


MODELS = decoders() | encoders() | encoder_decoders() | sharing() | sharers() | choosers() | carriers()
"""Any architecture."""
GENERATORS = decoders() | encoder_decoders() | sharing() | sharers() | choosers() | carriers()
"""Any that fills a cache."""
