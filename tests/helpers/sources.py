"""Tiny models that are more or less than a decoder with a head.

Encoders, encoder-decoders, base models; and what they are run on.
"""

import torch

from archcli.modules import (
    GLU,
    MLP,
    ConvFrontEnd,
    CrossAttention,
    DecoderStack,
    DilatedWindow,
    Embedding,
    Encoder,
    EncoderDecoder,
    EncoderStack,
    FixedPattern,
    GELUTanh,
    Group,
    Head,
    Learned,
    LengthTemperature,
    LinearAttention,
    MaskedHead,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    RelativeBuckets,
    RelativeKey,
    ReLU,
    Sinusoidal,
    StridedPattern,
    WindowedGlobal,
)
from archcli.modules.spec.request import Request
from zoo import LN, RMS, D, V, gqa, model, moe

SOURCE = 11
"""How many positions Whisper's encoder has; the others read as many ids, more than there are tokens."""
FFN = MLP(d_ff=20, bias=True)
TYPED = {
    "embedding": Embedding(tied=True, position=Learned(max_seq_len=32), token_types=2, norm=LN),
    "norm": LN,
    "final_norm": False,
}


def mha(**fields):
    return MultiHeadAttention(**{"n_heads": 4, "bias": True} | fields)


def groups(*blocks, n_layers=None):
    return (Group(n_layers=n_layers or len(blocks), pattern=blocks),)


def encoder(*blocks, n_layers=None, **fields):
    return Encoder(
        **{"vocab_size": V, "d_model": D, "norm": RMS, "groups": groups(*blocks, n_layers=n_layers)} | fields
    )


def bert(**fields):
    return encoder(PostNorm(norm=LN, attention=mha(causal=False), ffn=FFN), n_layers=2, **TYPED | fields)


ENCODERS = {
    "bert-masked": bert(head=MaskedHead(norm=LN)),
    "bert-pooled": bert(pooler=True),
    "bert-classifier": bert(pooler=True, n_labels=3),
    "bert-tagger": bert(n_labels=3),
    "bert-pretraining": bert(pooler=True, n_labels=2, head=MaskedHead(norm=LN)),
    "longformer": encoder(
        PreNorm(
            norm=RMS,
            attention=mha(causal=False, sparsity=WindowedGlobal(window=4, n_global=1)),
            ffn=GLU(d_ff=20),
        ),
        PreNorm(norm=RMS, attention=mha(causal=False, position=RelativeKey(max_distance=3)), ffn=moe()),
        n_layers=3,
    ),
    "linear": encoder(
        PreNorm(norm=RMS, attention=LinearAttention(n_heads=4, causal=False), ffn=FFN),
        head=MaskedHead(norm=RMS),
    ),
    "performer": encoder(
        PreNorm(
            norm=RMS,
            attention=LinearAttention(n_heads=4, features="softmax", n_features=5, causal=False),
            ffn=FFN,
        ),
    ),
}
"""Encoders: what BERT puts on one, and attention that is no plain softmax over all pairs."""


def pair(read, write, *, read_as=None, write_as=None, **fields):
    """An encoder of two layers and a decoder of three, so that no layer is taken for another side's."""
    halves = {
        "encoder": EncoderStack(**{"norm": RMS, "groups": groups(*read, n_layers=2)} | (read_as or {})),
        "decoder": DecoderStack(**{"norm": RMS, "groups": groups(*write, n_layers=3)} | (write_as or {})),
    }
    return EncoderDecoder(**{"vocab_size": V, "d_model": D, "norm": RMS} | halves | fields)


def t5(ffn, **fields):
    heads = {"n_heads": 4, "head_dim": 6, "scale": 1.0}
    buckets = {"n_buckets": 8, "max_distance": 14}
    return pair(
        [PreNorm(norm=RMS, attention=mha(**heads, bias=False, causal=False), ffn=ffn)],
        [
            PreNorm(
                norm=RMS, attention=mha(**heads, bias=False), cross_attention=CrossAttention(**heads), ffn=ffn
            )
        ],
        read_as={"score_bias": RelativeBuckets(**buckets, bidirectional=True)},
        write_as={"score_bias": RelativeBuckets(**buckets)},
        **fields,
    )


def vaswani(**fields):
    """Post-norm, no final norm, sinusoids; the decoder has heads of its own."""
    half = {"norm": LN, "final_norm": False}
    return pair(
        [PostNorm(norm=LN, attention=mha(causal=False), ffn=FFN)],
        [
            PostNorm(
                norm=LN,
                attention=mha(n_heads=2),
                cross_attention=CrossAttention(n_heads=2, bias=True),
                ffn=MLP(d_ff=12, bias=True),
            )
        ],
        **{
            "read_as": {**half, "position": Sinusoidal(), "vocab_size": fields.pop("source", None)},
            "write_as": half,
            "embedding": Embedding(tied=True, position=Sinusoidal(), scale="sqrt_d_model"),
            "norm": LN,
        }
        | fields,
    )


BIASED = ("q", "v", "o")
PAIRS = {
    "t5": t5(MLP(d_ff=20, activation=ReLU()), embedding=Embedding(tied=True), head=Head(scale=0.25)),
    "t5-v1.1": t5(GLU(d_ff=20, activation=GELUTanh())),
    "vaswani": vaswani(),
    "marian": vaswani(source=23, head=Head(stored_bias=True)),
    "whisper": pair(
        [PreNorm(norm=LN, attention=mha(causal=False, bias=BIASED), ffn=FFN)],
        [
            PreNorm(
                norm=LN,
                attention=mha(n_heads=2, bias=BIASED),
                cross_attention=CrossAttention(n_heads=2, bias=BIASED),
                ffn=FFN,
            )
        ],
        read_as={
            "norm": LN,
            "position": Learned(max_seq_len=SOURCE, frozen=True),
            "front_end": ConvFrontEnd(in_channels=6, d_model=D),
        },
        write_as={"norm": LN},
        norm=LN,
        source_len=SOURCE,
        embedding=Embedding(tied=True, position=Learned(max_seq_len=26)),
    ),
    "modern": pair(
        [
            PreNorm(norm=RMS, attention=gqa(causal=False), ffn=GLU(d_ff=20)),
            PreNorm(norm=RMS, attention=gqa(causal=False), ffn=moe()),
        ],
        [
            PreNorm(
                norm=RMS,
                attention=gqa(window=4),
                cross_attention=CrossAttention(n_heads=4, n_kv_heads=2, head_dim=6),
                ffn=GLU(d_ff=20),
            )
        ],
        read_as={"input_norm": RMS},
        head=None,
    ),
}
"""Encoder-decoders, one per way of building one."""

DECODERS = {
    "sparse": model(
        PreNorm(norm=RMS, attention=gqa(sparsity=DilatedWindow(window=3, dilation=2)), ffn=GLU(d_ff=20)),
        PreNorm(norm=RMS, attention=gqa(sparsity=StridedPattern(stride=3)), ffn=GLU(d_ff=20)),
        PreNorm(norm=RMS, attention=gqa(sparsity=FixedPattern(stride=4, summary=2)), ffn=GLU(d_ff=20)),
    ),
    "linear-decoder": model(PreNorm(norm=RMS, attention=LinearAttention(n_heads=4), ffn=FFN), n_layers=2),
    "performer-decoder": model(
        PreNorm(norm=RMS, attention=LinearAttention(n_heads=4, features="softmax", n_features=5), ffn=FFN),
        n_layers=2,
    ),
    "relu-attention": model(
        PreNorm(
            norm=RMS, attention=gqa(normalizer="relu", temperature=LengthTemperature(floor_scale=2)), ffn=FFN
        )
    ),
    "shaw": model(
        PreNorm(norm=RMS, attention=mha(position=RelativeKey(max_distance=3)), ffn=FFN), n_layers=2
    ),
    "opt-350m": model(
        PreNorm(norm=LN, attention=mha(), ffn=FFN), norm=LN, embedding=Embedding(tied=True, width=10)
    ),
}
"""Decoders whose attention is no plain softmax, and one whose table is narrower than the stream."""

BASES = {
    "gpt2-base": model(
        PreNorm(norm=LN, attention=mha(), ffn=FFN),
        norm=LN,
        head=None,
        embedding=Embedding(tied=True, position=Learned(max_seq_len=32)),
    ),
    "llama-base": model(PreNorm(norm=RMS, attention=gqa(), ffn=GLU(d_ff=20)), n_layers=2, head=None),
    "bert-base": bert(),
}
"""Models without a head, whose answer is the hidden states."""

OTHERS = ENCODERS | PAIRS | BASES | DECODERS


def source_of(spec, batch_size=2, length=SOURCE):
    """What an encoder-decoder's encoder reads: ids, or features.

    Nothing for a model that reads tokens alone.
    """
    source = spec.inputs(Request("forward", batch_size, length)).get("source")
    if source is None:
        return ()
    seed = torch.Generator().manual_seed(2)
    if source.kind == "features":
        return (torch.randn(source.shape, generator=seed),)
    return (torch.randint(source.n_ids, source.shape, generator=seed),)
