"""Encoders, and encoder-decoders: BERT with its heads, T5, Marian, Whisper."""

from __future__ import annotations

from archcli.modules import (
    GLU,
    MLP,
    ConvFrontEnd,
    CrossAttention,
    DecoderStack,
    Embedding,
    Encoder,
    EncoderDecoder,
    EncoderStack,
    GELUTanh,
    Head,
    LayerNorm,
    Learned,
    MaskedHead,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    RelativeBuckets,
    ReLU,
    SiLU,
    Sinusoidal,
)
from parity.family import D_FF, D_MODEL, EPS, HEADS, LN, RMS, SIZES, VOCAB, Family, layers

SOURCE = 9
"""How many positions Whisper's encoder has; the others read as many ids."""


def mha(**options):
    return MultiHeadAttention(**{"n_heads": HEADS, "bias": True, **options})


# BERT

BERT_LAYER = PostNorm(norm=LN, attention=mha(causal=False), ffn=MLP(d_ff=D_FF, bias=True))
BERT_CONFIG = {
    **{
        key: value
        for key, value in SIZES.items()
        if key not in ("num_key_value_heads", "tie_word_embeddings")
    },
    "model_type": "bert",
    "layer_norm_eps": EPS,
    "type_vocab_size": 3,
}


def bert(*, tied=True, **options):
    embedding = Embedding(tied=tied, position=Learned(max_seq_len=64), token_types=3, norm=LN)
    return Encoder(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        norm=LN,
        final_norm=False,
        embedding=embedding,
        groups=(layers(BERT_LAYER),),
        **options,
    )


# T5

T5_CONFIG = {
    "model_type": "t5",
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "d_kv": 10,
    "d_ff": D_FF,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": HEADS,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 14,
    "layer_norm_epsilon": EPS,
}


def t5(ffn, **options):
    heads = {"n_heads": HEADS, "head_dim": 10, "scale": 1.0}
    buckets = {"n_buckets": 8, "max_distance": 14}
    read = PreNorm(norm=RMS, attention=mha(**heads, bias=False, causal=False), ffn=ffn)
    write = PreNorm(
        norm=RMS, attention=mha(**heads, bias=False), cross_attention=CrossAttention(**heads), ffn=ffn
    )
    return EncoderDecoder(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        norm=RMS,
        encoder=EncoderStack(
            norm=RMS, score_bias=RelativeBuckets(**buckets, bidirectional=True), groups=(layers(read),)
        ),
        decoder=DecoderStack(
            norm=RMS, score_bias=RelativeBuckets(**buckets), groups=(layers(write, n_layers=3),)
        ),
        **options,
    )


# Marian and Whisper, whose layers have the same names

HALVES = {
    "vocab_size": VOCAB,
    "d_model": D_MODEL,
    "encoder_layers": 2,
    "encoder_attention_heads": HEADS,
    "encoder_ffn_dim": D_FF,
    "decoder_layers": 3,
    "decoder_attention_heads": 2,
    "decoder_ffn_dim": 36,
    "pad_token_id": 0,
}
PLAIN_LN = LayerNorm()
# eps is 1e-5 whatever the config says; a stream this quiet feels it
WRITERS = ("self_attn.out_proj.*", "encoder_attn.out_proj.*", "fc2.*")
MARIAN_QUIET = {
    f"model.*.layers.*.{name}": 0.3
    for name in ("self_attn_layer_norm.*", "encoder_attn_layer_norm.*", "final_layer_norm.*", *WRITERS)
}
MARIAN_CONFIG = {"model_type": "marian", "max_position_embeddings": 64, **HALVES}
SINUSOID = Sinusoidal(pairing="half")


def marian(activation, *, source=None, **embedding):
    read = PostNorm(
        norm=PLAIN_LN, attention=mha(causal=False), ffn=MLP(d_ff=D_FF, activation=activation, bias=True)
    )
    write = PostNorm(
        norm=PLAIN_LN,
        attention=mha(n_heads=2),
        cross_attention=CrossAttention(n_heads=2, bias=True),
        ffn=MLP(d_ff=36, activation=activation, bias=True),
    )
    half = {"norm": PLAIN_LN, "final_norm": False}
    return EncoderDecoder(
        vocab_size=VOCAB,
        d_model=D_MODEL,
        norm=PLAIN_LN,
        embedding=Embedding(tied=True, position=SINUSOID, **embedding),
        encoder=EncoderStack(**half, position=SINUSOID, vocab_size=source, groups=(layers(read),)),
        decoder=DecoderStack(**half, groups=(layers(write, n_layers=3),)),
        head=Head(stored_bias=True),
    )


BIASED = ("q", "v", "o")
WHISPER_LAYERS = {
    "encoder": PreNorm(
        norm=PLAIN_LN,
        attention=mha(causal=False, bias=BIASED),
        ffn=MLP(d_ff=D_FF, activation=SiLU(), bias=True),
    ),
    "decoder": PreNorm(
        norm=PLAIN_LN,
        attention=mha(n_heads=2, bias=BIASED),
        cross_attention=CrossAttention(n_heads=2, bias=BIASED),
        ffn=MLP(d_ff=36, activation=SiLU(), bias=True),
    ),
}
WHISPER = EncoderDecoder(
    vocab_size=VOCAB,
    d_model=D_MODEL,
    norm=PLAIN_LN,
    source_len=SOURCE,
    embedding=Embedding(tied=True, position=Learned(max_seq_len=26)),
    encoder=EncoderStack(
        norm=PLAIN_LN,
        position=Learned(max_seq_len=SOURCE, frozen=True),
        front_end=ConvFrontEnd(in_channels=6, d_model=D_MODEL),
        groups=(layers(WHISPER_LAYERS["encoder"]),),
    ),
    decoder=DecoderStack(norm=PLAIN_LN, groups=(layers(WHISPER_LAYERS["decoder"], n_layers=3),)),
)

FAMILIES = {
    "bert": Family(config=BERT_CONFIG, spec=bert(pooler=True), cls="BertModel", answer="pooler_output"),
    "bert-masked": Family(config=BERT_CONFIG, spec=bert(head=MaskedHead(norm=LN)), cls="BertForMaskedLM"),
    "bert-classifier": Family(
        config={**BERT_CONFIG, "num_labels": 5},
        spec=bert(pooler=True, n_labels=5),
        cls="BertForSequenceClassification",
    ),
    "bert-tagger": Family(
        config={**BERT_CONFIG, "num_labels": 5},
        spec=bert(n_labels=5),
        cls="BertForTokenClassification",
    ),
    "t5": Family(
        config=T5_CONFIG,
        spec=t5(
            MLP(d_ff=D_FF, activation=ReLU()), embedding=Embedding(tied=True), head=Head(scale=D_MODEL**-0.5)
        ),
        cls="T5ForConditionalGeneration",
    ),
    "t5-v1.1": Family(
        config={**T5_CONFIG, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        spec=t5(GLU(d_ff=D_FF, activation=GELUTanh())),
        cls="T5ForConditionalGeneration",
        untied=True,
    ),
    "marian": Family(
        config={**MARIAN_CONFIG, "activation_function": "relu", "scale_embedding": True},
        spec=marian(ReLU(), scale="sqrt_d_model"),
        cls="MarianMTModel",
        quiet=MARIAN_QUIET,
    ),
    "marian-two-tables": Family(
        config={
            **MARIAN_CONFIG,
            "vocab_size": 47,
            "decoder_vocab_size": VOCAB,
            "share_encoder_decoder_embeddings": False,
            "activation_function": "swish",
        },
        spec=marian(SiLU(), source=47),
        cls="MarianMTModel",
        quiet=MARIAN_QUIET,
    ),
    "whisper": Family(
        config={
            **HALVES,
            "model_type": "whisper",
            "num_mel_bins": 6,
            "max_source_positions": SOURCE,
            "max_target_positions": 26,
            "activation_function": "swish",
        },
        spec=WHISPER,
        cls="WhisperForConditionalGeneration",
        quiet={f"model.*.layers.*.{name}": 0.1 for name in WRITERS}
        | {"model.encoder.conv1.*": 3.0, "model.encoder.conv2.*": 0.3, "model.*.embed_*.weight": 0.1},
    ),
}
