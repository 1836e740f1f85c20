"""Weights that no pass reads, tables of buckets in each layer, and an encoder of another width."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules import (
    MLP,
    CrossAttention,
    Decoder,
    DecoderStack,
    EncoderDecoder,
    EncoderStack,
    Group,
    LayerBuckets,
    LayerNorm,
    LoRA,
    MultiHeadAttention,
    PreNorm,
    RelativeBuckets,
)

D, HEADS, FF, VOCAB, DEPTH = 8, 2, 12, 11, 3
LN = LayerNorm()


def mha(**options):
    return MultiHeadAttention(n_heads=HEADS, **options)


def group(cross=None, **options):
    layer = PreNorm(norm=LN, attention=mha(**options), cross_attention=cross, ffn=MLP(d_ff=FF))
    return Group(n_layers=DEPTH, layer=layer)


def decoder(cross=None, **options):
    return Decoder(vocab_size=VOCAB, d_model=D, norm=LN, groups=(group(cross),), **options)


def figures(model):
    return (
        archcli.count_params(model).totals["params"],
        archcli.count_flops(model, seq_len=5).totals["matmul_flops"],
        archcli.count_kv_cache(model, context=5).totals["elements"],
    )


def test_an_idle_cross_attention_is_held_and_never_runs():
    params, flops, cached = figures(decoder())
    idle = figures(decoder(CrossAttention(n_heads=HEADS, bias=True, idle=True)))
    held = DEPTH * (4 * (D * D + D) + 2 * D)
    assert idle == (params + held, flops, cached)


def test_adapters_of_an_idle_cross_attention_are_held_as_well():
    lora = LoRA(rank=2, alpha=4, targets=("q",))
    idle = CrossAttention(n_heads=HEADS, idle=True)
    plain, adapted = figures(decoder(lora=lora))[0], figures(decoder(idle, lora=lora))[0]
    assert adapted - plain == DEPTH * (4 * D * D + 2 * D + 2 * 2 * D)


def test_a_cross_attention_without_a_source_is_refused():
    with pytest.raises(ArchError, match="needs the encoder's output"):
        archcli.count_params(decoder(CrossAttention(n_heads=HEADS)))


def test_an_unread_table_is_held():
    params, flops, cached = figures(decoder())
    assert figures(decoder(unread={"table": (VOCAB, D)})) == (params + VOCAB * D, flops, cached)


def test_buckets_of_each_layer_are_tables_of_their_own():
    buckets = LayerBuckets(n_buckets=6, max_distance=9)
    model = Decoder(vocab_size=VOCAB, d_model=D, norm=LN, groups=(group(position=buckets),))
    params, flops, cached = figures(decoder())
    assert figures(model) == (params + DEPTH * 6 * HEADS, flops, cached)


def test_buckets_of_a_layer_and_of_the_stack_exclude_each_other():
    with pytest.raises(ArchError, match="as score_bias does"):
        Decoder(
            vocab_size=VOCAB,
            d_model=D,
            norm=LN,
            score_bias=RelativeBuckets(),
            groups=(group(position=LayerBuckets()),),
        )


def halves(**encoder):
    return EncoderDecoder(
        vocab_size=VOCAB,
        d_model=D,
        norm=LN,
        encoder=EncoderStack(norm=LN, groups=(group(causal=False),), **encoder),
        decoder=DecoderStack(norm=LN, groups=(group(CrossAttention(n_heads=HEADS)),)),
    )


def test_an_encoder_may_be_wider_than_its_decoder():
    own = archcli.count_params(halves(vocab_size=7)).totals["params"]
    wide = archcli.count_params(halves(vocab_size=7, d_model=2 * D)).totals["params"]
    layer = 4 * (4 * D * D - D * D) + 2 * D * FF + 4 * D  # attention, network, two norms
    assert wide - own == 7 * D + DEPTH * (layer + 2 * D * D) + 2 * D  # keys and values of the decoder


def test_an_encoder_of_its_own_width_needs_a_table():
    with pytest.raises(ArchError, match="has a table of its own"):
        halves(d_model=2 * D)
