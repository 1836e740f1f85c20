"""Random attention: heads, masks, positions, linear and latent.

Small enough that all readings of one take milliseconds.
"""

from hypothesis import strategies as st

from archcli.modules import (
    ALiBi,
    BlockSparsePattern,
    DifferentialAttention,
    DilatedWindow,
    DynamicNTKScaling,
    FixedPattern,
    GroupedQueryAttention,
    Indexer,
    KeyBlockIndexer,
    KeyPoolIndexer,
    LayerNorm,
    LengthTemperature,
    LinearAttention,
    LinearScaling,
    Llama3Scaling,
    LongRopeScaling,
    MeanPoolIndexer,
    MixtureOfHeads,
    MultiHeadAttention,
    MultiHeadLatentAttention,
    MultiQueryAttention,
    NoPosition,
    NoScaling,
    NTKScaling,
    OutputGate,
    PrescaledRMSNorm,
    QKNorm,
    RelativeKey,
    RMSNorm,
    Rope,
    SelfGatedRMSNorm,
    Sigmoid,
    Softplus,
    StridedPattern,
    ValueGate,
    YarnScaling,
)
from readings.outputs import BOOL, NUMBERS, maybe

SIZES = st.integers(1, 5)
NORMS = st.one_of(
    st.builds(RMSNorm, offset=st.sampled_from([0, 1])),
    st.builds(LayerNorm, offset=st.sampled_from([0, 1]), bias=BOOL),
    st.just(RMSNorm(weight=False)),
    st.builds(LayerNorm, weight=st.just(False), bias=BOOL),
    st.builds(SelfGatedRMSNorm, rank=SIZES),
    st.just(PrescaledRMSNorm()),
)

SHARPENED = maybe(
    st.builds(
        LengthTemperature,
        floor_scale=SIZES,
        first=st.sampled_from([0, 1]),
        grows=st.sampled_from(["log", "power", "log_above"]),
    )
)
SPARSITIES = st.one_of(
    st.builds(DilatedWindow, window=SIZES, dilation=SIZES),
    st.builds(StridedPattern, stride=SIZES),
    st.builds(BlockSparsePattern, block=SIZES, near=SIZES, stride=SIZES),
    st.builds(
        lambda summary, more: FixedPattern(stride=summary + more, summary=summary), SIZES, st.integers(0, 3)
    ),
)


@st.composite
def scalings(draw, pairs):
    """How the frequencies of so many pairs are stretched."""
    divisors = st.tuples(*[st.sampled_from([1.0, 2.0])] * pairs)
    choices = [
        st.just(NoScaling()),
        st.just(LinearScaling(factor=4.0)),
        st.builds(DynamicNTKScaling, factor=st.just(2.0), original_max_seq_len=st.just(4))
        if pairs > 1
        else st.nothing(),
        st.just(NTKScaling(factor=8.0)) if pairs > 1 else st.nothing(),
        st.just(Llama3Scaling(factor=8.0, original_max_seq_len=16)),
        st.builds(
            YarnScaling,
            factor=st.just(4.0),
            original_max_seq_len=st.just(8),
            mscale=maybe(NUMBERS),
            mscale_all_dim=maybe(NUMBERS),
        ),
        st.builds(
            LongRopeScaling,
            factor=st.just(4.0),
            original_max_seq_len=st.just(4),
            short_factor=divisors,
            long_factor=divisors,
        ),
    ]
    return draw(st.one_of(choices))


@st.composite
def positions(draw, width):
    """What acts inside attention on heads of this width."""
    if width % 2 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([NoPosition(), ALiBi(), ALiBi(slope_exponent=4.0, scaled=True)]))
    turned = draw(maybe(st.integers(1, width // 2).map(lambda pairs: 2 * pairs)))
    scaling = draw(scalings((turned or width) // 2))
    return Rope(
        theta=100.0,
        rotary_dim=turned,
        pairing=draw(st.sampled_from(["half", "interleaved"])),
        scaling=scaling,
        clockwise=draw(BOOL),
        rotates=draw(st.sampled_from(["first", "last"])),
    )


@st.composite
def masks(draw):
    """A window, a chunk, a pattern with gaps, or none of them."""
    bound = draw(st.sampled_from([None, "window", "chunk", "sparsity"]))
    return {} if bound is None else {bound: draw(SPARSITIES if bound == "sparsity" else st.integers(1, 6))}


GATED_KEYS = st.builds(dict, value_gate=st.builds(ValueGate, top_k=SIZES, bias=BOOL))
WIDE = {"head_dim": st.sampled_from([64, 65]), "norm": NORMS}
MEAN_INDEXES = st.builds(MeanPoolIndexer, top_k=SIZES, pool=SIZES, n_heads=SIZES, **WIDE)
# one head, which any number of query heads share
BLOCK_INDEXES = st.builds(KeyBlockIndexer, top_k=SIZES, block=SIZES, n_heads=st.just(1), **WIDE)
INDEXES = st.builds(Indexer, top_k=SIZES, n_heads=SIZES, **WIDE) | BLOCK_INDEXES | MEAN_INDEXES
POOL_INDEXES = st.builds(KeyPoolIndexer, top_k=SIZES, pool=SIZES, n_heads=SIZES, **WIDE)


@st.composite
def chosen(draw):
    """A mask, or an indexer in place of it."""
    return draw(masks() | st.builds(dict, index=INDEXES))


@st.composite
def weighing(draw, relu):
    """Softmax with or without sinks, or relu where that may be; queries sharpened or not."""
    ways = [{}, {"sinks": True}, *([{"normalizer": "relu"}] if relu else [])]
    return draw(st.sampled_from(ways)) | {"temperature": draw(SHARPENED)}


@st.composite
def qk_norms(draw):
    """A norm of queries and keys, with weights of each head where that norm can have them."""
    norm = draw(NORMS)
    per = ["head", "full", *(["head_distinct"] if norm.per_head else [])]
    when = st.sampled_from(["before_rope", "after_rope"])
    return QKNorm(per=draw(st.sampled_from(per)), when=draw(when), norm=norm)


@st.composite
def gates(draw):
    """The result gated for each channel or head, and normalized, or neither."""
    kinds = st.sampled_from([Sigmoid(), Softplus()])
    gate = st.builds(
        OutputGate, per=st.sampled_from(["channel", "head"]), activation=kinds, bias=st.booleans()
    )
    return {"output_gate": draw(maybe(gate)), "inner_norm": draw(maybe(NORMS))}


@st.composite
def heads(draw, d_model):
    """How many heads, and their width where d_model does not say it."""
    n_heads = draw(st.sampled_from([1, 2, 3, 4]))
    return n_heads, draw(st.integers(1, 4).map(lambda half: 2 * half)) if d_model % n_heads else draw(
        maybe(st.integers(1, 7))
    )


@st.composite
def linear(draw, d_model):
    """Attention by running sums, of either feature map."""
    n_heads, own = draw(heads(d_model))
    placed = positions(own or d_model // n_heads).filter(lambda position: not isinstance(position, ALiBi))
    kernel = draw(
        st.sampled_from(
            [{"features": "elu"}, {"features": "softmax"}, {"features": "softmax", "n_features": 3}]
        )
    )
    return LinearAttention(
        n_heads=n_heads,
        head_dim=own,
        v_head_dim=draw(maybe(SIZES)),
        position=draw(placed),
        bias=draw(BOOL),
        clip=draw(maybe(NUMBERS)),
        **kernel,
    )


@st.composite
def projected(draw, d_model):
    """MHA, GQA or MQA with everything that may stand inside."""
    n_heads, own = draw(heads(d_model))
    cls = draw(st.sampled_from([MultiHeadAttention, MultiQueryAttention, GroupedQueryAttention]))
    fields = {"n_heads": n_heads, "head_dim": own, **draw(chosen() | GATED_KEYS)}
    gated = "value_gate" in fields
    position = positions(own or d_model // n_heads)
    fields["position"] = draw(position if gated else position | st.builds(RelativeKey, max_distance=SIZES))
    if cls is GroupedQueryAttention:
        fields["n_kv_heads"] = draw(st.sampled_from([k for k in range(1, n_heads + 1) if n_heads % k == 0]))
    return cls(
        **fields,
        v_head_dim=draw(maybe(SIZES)),
        bias=draw(
            BOOL | st.sets(st.sampled_from(["q", "k", "v", "o"])).map(lambda names: tuple(sorted(names)))
        ),
        qk_norm=draw(maybe(qk_norms())),
        clip=draw(maybe(NUMBERS)),
        scale=draw(maybe(NUMBERS)),
        softcap=draw(maybe(NUMBERS)),
        value_multiplier=draw(st.sampled_from([1.0, 0.7])),
        **draw(gates()),
        **draw(weighing(relu=not gated)),
    )


@st.composite
def differential(draw, d_model):
    """Differential attention, of which halves have one kv head or two."""
    own, pairs = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2]))
    placed = positions(own).filter(lambda position: not isinstance(position, ALiBi))
    return DifferentialAttention(
        n_heads=2 * pairs,
        n_kv_heads=draw(st.sampled_from([2, 2 * pairs])),
        head_dim=own,
        lambda_init=draw(st.sampled_from([0.2, 0.7])),
        norm=draw(NORMS),
        position=draw(placed),
        v_head_dim=draw(maybe(SIZES)),
        bias=draw(BOOL),
        softcap=draw(maybe(NUMBERS)),
        **draw(masks()),
        **draw(gates()),
    )


@st.composite
def mixture_of_heads(draw):
    """Heads of chosen experts, of one expert or several."""
    n_experts, own = draw(SIZES), draw(st.integers(1, 4))
    top_k = draw(st.integers(1, n_experts))
    return MixtureOfHeads(
        n_heads=top_k * draw(st.integers(1, 2)),
        head_dim=own,
        n_experts=n_experts,
        top_k=top_k,
        position=draw(positions(own)),
        out_bias=draw(BOOL),
        scale=draw(maybe(NUMBERS)),
        softcap=draw(maybe(NUMBERS)),
        temperature=draw(SHARPENED),
        **draw(masks()),
    )


@st.composite
def latent(draw):
    """MLA, naive or absorbed, with and without a compressed query and rotary dims.

    torch's einsum over an axis of 1 multiplies, and counts nothing.
    """
    turned, rank = draw(st.sampled_from([2, 4, None])), draw(maybe(SIZES))
    if turned is None:
        places = draw(chosen() | st.builds(dict, index=POOL_INDEXES))
    else:
        places = {"position": draw(positions(turned)), "k_pe_norm": draw(maybe(NORMS)), **draw(chosen())}
    return MultiHeadLatentAttention(
        n_heads=draw(st.integers(1, 3)),
        q_lora_rank=rank,
        query_gate=rank is not None and draw(BOOL),
        kv_lora_rank=draw(st.integers(2, 5)),
        qk_nope_head_dim=draw(st.integers(2, 5)),
        qk_rope_head_dim=turned,
        v_head_dim=draw(SIZES),
        bias=draw(BOOL),
        latent_norm=draw(NORMS),
        form=draw(st.sampled_from(["naive", "absorbed"])),
        scale=draw(maybe(NUMBERS)),
        softcap=draw(maybe(NUMBERS)),
        sinks=draw(BOOL),
        **draw(gates()),
        **places,
    )
