"""Random architectures over every kind of module, small enough that all readings of one take milliseconds."""

from hypothesis import strategies as st

from archcli.modules import (
    GELU,
    GLU,
    MLP,
    XIELU,
    CrossEntropy,
    Decoder,
    Embedding,
    GELUTanh,
    Group,
    Learned,
    LoRA,
    MixtureOfExperts,
    MixtureOfHeads,
    NoPosition,
    Parallel,
    ParallelMixer,
    PostNorm,
    PreNorm,
    ReLU,
    ResidualPostNorm,
    Router,
    Sandwich,
    Sigmoid,
    SiLU,
    Sinusoidal,
    Softplus,
    SquaredReLU,
    Swish,
)
from archcli.modules.recurrent.base import Recurrent
from archcli.modules.recurrent.rwkv import RWKVChannelMix
from archcli.modules.recurrent.short_conv import ShortConvolution
from readings import convolved, diagonal, recurrent
from readings.mixers import NORMS, SIZES, differential, latent, linear, mixture_of_heads, projected
from readings.outputs import BOOL, NUMBERS, maybe, outputs

ACTIVATIONS = st.one_of(
    st.sampled_from([ReLU(), SquaredReLU(), GELU(), GELUTanh(), SiLU(), Sigmoid(), Softplus()]),
    st.builds(Swish, beta=NUMBERS, learnt=BOOL),
    st.builds(XIELU, beta=NUMBERS),
)


DENSE = st.builds(MLP, d_ff=SIZES, activation=ACTIVATIONS, bias=BOOL, inner_norm=maybe(NORMS)) | st.builds(
    GLU,
    d_ff=SIZES,
    activation=ACTIVATIONS,
    bias=BOOL | st.sampled_from([("down",), ("gate", "up")]),
    limit=maybe(NUMBERS),
    limit_on=st.sampled_from(["gate", "activation"]),
    up_offset=st.sampled_from([0, 1]),
    inner_norm=maybe(NORMS),
)


@st.composite
def mixtures(draw):
    """A mixture of experts with every option of its router."""
    groups = draw(st.sampled_from([1, 2]))
    n_experts = groups * draw(st.integers(2, 3))
    kept = draw(st.integers(1, groups))
    shared = draw(maybe(DENSE))
    top_k, narrow = draw(st.integers(1, kept * n_experts // groups)), draw(maybe(SIZES))
    return MixtureOfExperts(
        n_experts=n_experts,
        top_k=top_k,
        weigh=draw(st.sampled_from(["output", "input"])) if top_k == 1 else "output",
        expert=draw(DENSE),
        shared=shared,
        shared_gate=shared is not None and draw(BOOL),
        combination="sum" if shared is None else draw(st.sampled_from(["sum", "mean"])),
        out_norm=draw(maybe(NORMS)),
        out_bias=draw(BOOL),
        latent=narrow,
        latent_bias=narrow is not None and draw(BOOL),
        latent_norm=None if narrow is None else draw(maybe(NORMS)),
        expert_out_norm=draw(maybe(NORMS)),
        router=Router(
            scores=draw(st.sampled_from(["softmax", "sigmoid", "softmax_after"])),
            normalized=draw(BOOL),
            scale=draw(st.sampled_from([1.0, 2.5])),
            correction=draw(BOOL),
            n_groups=groups,
            top_k_groups=kept,
            group_score=draw(st.sampled_from(["max", "top2"])),
            bias=draw(BOOL),
            softcap=draw(maybe(NUMBERS)),
            multiplier=draw(st.sampled_from([1.0, 0.5])),
            ranked_by=draw(st.sampled_from(["scores", "logits"])),
            correction_is=draw(st.sampled_from(["buffer", "parameter"])),
        ),
    )


@st.composite
def blocks(draw, d_model):
    """One layer of any wiring."""
    cls = draw(st.sampled_from([PreNorm, PostNorm, Sandwich, ResidualPostNorm, Parallel]))
    extra = {"n_norms": draw(st.sampled_from([1, 2]))} if cls is Parallel else {}
    mixers = projected(d_model) | latent() | linear(d_model) | differential(d_model)
    mixers |= mixture_of_heads() | convolved.attention() | convolved.compressed()
    mixed = recurrent.MIXERS | diagonal.MIXERS
    branches = st.tuples(projected(d_model) | linear(d_model), mixed, mixed)
    mixed |= st.builds(ParallelMixer, branches=branches, out_multiplier=NUMBERS)
    mixer = {"mixer": draw(mixed)} if draw(BOOL) else {"attention": draw(mixers)}
    networks = DENSE | mixtures() | diagonal.CHANNEL_MIXES | convolved.networks(DENSE)
    ffn = draw(networks | (st.none() if "mixer" in mixer else st.nothing()))
    if cls is PreNorm and ffn is not None:
        extra = {"ffn_norm": draw(maybe(NORMS)), "stream_scale": draw(BOOL)}
    gated = cls is Sandwich and draw(BOOL)
    if gated:
        extra = {"residual_gate": draw(NUMBERS), "ffn_post_norm": None if ffn is None else draw(maybe(NORMS))}
    return cls(
        **mixer,
        ffn=ffn,
        norm=draw(NORMS),
        residual_multiplier=1.0 if gated else draw(st.sampled_from([1.0, 0.5])),
        **extra,
    )


@st.composite
def groups(draw, d_model):
    """One layer repeated, or a pattern of two.

    (A stack shorter than its pattern has no formula in n_layers: it is tested apart.)
    """
    if draw(BOOL):
        return Group(n_layers=draw(st.integers(1, 2)), layer=draw(blocks(d_model)))
    return Group(
        n_layers=draw(st.sampled_from([2, 2, 3])), pattern=(draw(blocks(d_model)), draw(blocks(d_model)))
    )


ADAPTERS = st.builds(
    LoRA,
    rank=st.integers(2, 4),  # torch.einsum over an axis of 1 multiplies, and counts nothing
    alpha=maybe(NUMBERS),
    targets=st.lists(
        st.sampled_from(["all_linear", "o", "down", "lm_head", "embedding"]), min_size=1, max_size=3
    ).map(tuple),
)


def adapters(stacked, *, lends):
    """Adapters on what a model of these groups has: experts of heads have no o, a lent table no adapter."""
    mixers = [block.mixing[1] for group in stacked for block in group.blocks]
    absent = (
        {"o"}
        if all(isinstance(mixer, MixtureOfHeads | Recurrent | ShortConvolution) for mixer in mixers)
        else set()
    )
    networks = [block.ffn for group in stacked for block in group.blocks]
    absent |= {"down"} if all(isinstance(ffn, RWKVChannelMix | None) for ffn in networks) else set()
    absent |= {"lm_head"} if lends else set()
    return ADAPTERS.filter(lambda lora: not absent & {*lora.targets})


@st.composite
def decoders(draw):
    """A whole model of one or two groups."""
    d_model, vocab_size = draw(st.integers(1, 8)), draw(st.integers(2, 11))
    even = d_model % 2 == 0
    added = [
        st.just(NoPosition()),
        st.builds(Learned, max_seq_len=st.integers(16, 20), offset=st.integers(0, 2)),
    ]
    pairing, first = st.sampled_from(["half", "interleaved"]), st.sampled_from(["sine", "cosine"])
    sinusoids = st.builds(Sinusoidal, pairing=pairing, first=first, offset=st.integers(0, 2))
    added += [sinusoids] if even else []
    tied = draw(BOOL)
    head = draw(outputs(vocab_size, d_model).filter(lambda head: head.ties or not tied))
    z_loss = st.none() if head.by_targets else maybe(st.just(0.1))
    stacked = tuple(draw(st.lists(groups(d_model), min_size=1, max_size=2)))
    return Decoder(
        vocab_size=vocab_size,
        d_model=d_model,
        norm=draw(NORMS),
        final_norm=draw(BOOL),
        embedding=Embedding(
            tied=tied,
            scale=draw(st.sampled_from([None, "sqrt_d_model", 0.5])),
            position=draw(st.one_of(added)),
            norm=draw(maybe(NORMS)),
        ),
        lora=draw(maybe(adapters(stacked, lends=tied and head.by_targets))),
        head=head,
        loss=draw(maybe(st.builds(CrossEntropy, z_loss=z_loss))),
        groups=stacked,
    )
