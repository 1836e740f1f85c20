"""How modules are wired, written out from their papers around the leaves of a built model.

Each check raises AssertionError.

The leaves themselves (a linear map, a norm) are held against definitions of their own in tests/ops.
"""

from types import SimpleNamespace

import torch
from torch import nn

from archcli.modules import (
    GELU,
    GLU,
    MLP,
    Embedding,
    GELUTanh,
    HardSwish,
    Head,
    LayerNorm,
    Learned,
    NoPosition,
    Parallel,
    PostNorm,
    PreNorm,
    ReLU,
    ReLU6,
    ResidualPostNorm,
    Router,
    Sandwich,
    Sigmoid,
    SiLU,
    Sinusoidal,
    Softplus,
    SquaredReLU,
    Swish,
    TransformedHead,
)
from archcli.ops import Sinusoid
from ops.references import REFERENCES
from wirings.attention import (
    ATTENTIONS,
    FFN,
    X,
    check_attention,
    check_differential,
    check_latent,
    check_limits,
    check_mixture_of_heads,
    check_yarn_scale,
    layer_of,
)
from wirings.networks import check_glu_biases, check_inner_norm, check_streams, check_xielu
from zoo import DEEPSEEK, LN, QWEN_MOE, RMS, D, V, assert_close, built, gqa, model, moe, tokens

BLOCKS = {
    "pre_norm": (PreNorm, lambda n, A, F, x: (y := x + A(n.attention_norm(x))) + F(n.ffn_norm(y))),
    "post_norm": (PostNorm, lambda n, A, F, x: n.ffn_norm((y := n.attention_norm(x + A(x))) + F(y))),
    "sandwich": (
        Sandwich,
        lambda n, A, F, x: (
            (y := x + n.attention_post_norm(A(n.attention_norm(x), bare=True)))
            + n.ffn_post_norm(F(n.ffn_norm(y), bare=True))
        ),
    ),
    "norm_after": (
        ResidualPostNorm,
        lambda n, A, F, x: (y := x + n.attention_norm(A(x, bare=True))) + n.ffn_norm(F(y, bare=True)),
    ),
    "parallel-1": (Parallel, lambda n, A, F, x: x + A(n.attention_norm(x)) + F(n.attention_norm(x))),
    "parallel-2": (Parallel, lambda n, A, F, x: x + A(n.attention_norm(x)) + F(n.ffn_norm(x))),
}


def check_block(name):
    """The equation over the block's class, without a multiplier of what each part adds and with 0.5."""
    cls, equation = BLOCKS[name]
    extra = {"n_norms": int(name[-1])} if cls is Parallel else {}
    node = layer_of(cls(attention=gqa(), ffn=FFN, norm=RMS, **extra))
    assert_close(
        node(X)[0],
        equation(node, lambda x, bare=False: node.attention(x)[0], lambda x, bare=False: node.ffn(x), X),
    )


def check_multiplier():
    node = layer_of(PreNorm(attention=gqa(), ffn=FFN, norm=RMS, residual_multiplier=0.25))
    y = X + 0.25 * node.attention(node.attention_norm(X))[0]
    assert_close(node(X)[0], y + 0.25 * node.ffn(node.ffn_norm(y)))


def check_nth_branch():
    node = layer_of(PreNorm(attention=gqa(), ffn=FFN, norm=RMS, nth_branch=4))
    y = X * 0.75**0.5 + node.attention(node.attention_norm(X))[0] / 2
    assert_close(node(X)[0], y * 0.8**0.5 + node.ffn(node.ffn_norm(y)) * 0.2**0.5)


def check_bare_mixer():
    node = layer_of(PreNorm(attention=gqa(), ffn=FFN, norm=RMS, normed="ffn"))
    y = X + node.attention(X)[0]
    assert_close(node(X)[0], y + node.ffn(node.ffn_norm(y)))
    assert "attention_norm" not in dict(node.named_children())


def check_extra_rows():
    block = PreNorm(attention=gqa(), ffn=FFN, norm=RMS)
    made, ids = built(model(block, embedding=Embedding(extra_rows=3))), tokens()
    assert made.embedding.tokens.weight.shape == (V + 3, D)
    assert made(ids).shape == (2, 9, V)


def check_transformed_head():
    head = TransformedHead(norm=RMS, bias=True)
    block = PreNorm(attention=gqa(), ffn=FFN, norm=RMS)
    made, ids = built(model(block, head=head, embedding=Embedding(tied=True))), tokens()
    x = made.final_norm(made.layers[0](made.embedding.tokens.weight[ids])[0])
    hidden = made.lm_head_norm(nn.functional.gelu(made.lm_head_transform(x)))
    assert_close(made(ids), hidden @ made.embedding.tokens.weight.T + made.lm_head.bias)
    assert made.lm_head_transform.bias is not None


NORMS = {
    "rmsnorm": (RMS, 1e-6),
    "rmsnorm-offset": (RMS.replace(offset=1), 1e-6),
    "layernorm": (LN, 1e-5),
}
NORMS |= {
    "layernorm-gain": (LayerNorm(bias=False, offset=1), 1e-5),
    "layernorm-bare": (LayerNorm(weight=False, bias=False, eps=0.1), 0.1),
}


def check_norm(name):
    spec, eps = NORMS[name]
    node = layer_of(PreNorm(attention=gqa(), ffn=FFN, norm=spec))
    centred = X - X.mean(-1, keepdim=True) if "layer" in name else X
    state = (
        dict(node.attention_norm.named_parameters())
        if "attention_norm" in dict(node.named_children())
        else {}
    )
    expected = centred / (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt() * (
        spec.offset + state.get("weight", 1.0)
    ) + state.get("bias", 0.0)
    seen = []
    node.attention.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    node(X)
    assert_close(seen[0], expected)


ACTIVATIONS = {
    "relu": (ReLU(), nn.functional.relu),
    "relu2": (SquaredReLU(), lambda x: nn.functional.relu(x) ** 2),
    "relu6": (ReLU6(), nn.functional.relu6),
    "hard_swish": (HardSwish(), nn.functional.hardswish),
    "gelu": (GELU(), nn.functional.gelu),
    "gelu_tanh": (GELUTanh(), lambda x: nn.functional.gelu(x, approximate="tanh")),
    "silu": (SiLU(), nn.functional.silu),
    "sigmoid": (Sigmoid(), torch.sigmoid),
    "softplus": (Softplus(), nn.functional.softplus),
    "swish": (Swish(beta=1.5), lambda x: x * torch.sigmoid(1.5 * x)),
}


def check_activation(name):
    spec, function = ACTIVATIONS[name]
    node = layer_of(PreNorm(attention=gqa(), ffn=MLP(d_ff=7, activation=spec, bias=True), norm=RMS)).ffn
    assert_close(node(X), node.down_proj(function(node.up_proj(X))))
    node = layer_of(PreNorm(attention=gqa(), ffn=GLU(d_ff=7, activation=spec), norm=RMS)).ffn
    assert_close(node(X), node.down_proj(function(node.gate_proj(X)) * node.up_proj(X)))


MIXTURES = {
    "mixtral": moe(),
    "deepseek": DEEPSEEK,
    "qwen": QWEN_MOE,
    "mean": DEEPSEEK.replace(combination="mean", out_norm=LN),
    "by-logits": moe(
        n_experts=8, router=Router(scores="sigmoid", ranked_by="logits", correction=True, softcap=1.5)
    ),
    "biased": moe(out_bias=True),
    "one-by-one": moe(n_experts=8, router=Router(scores="sparsemixer", jitter=0.4)),
    "counted-correction": moe(n_experts=8, router=Router(correction=True, correction_is="parameter")),
}


def chosen(node, spec, x):
    """Weights and experts by the reference of Route."""
    router = spec.router
    assert (node.router.bias is not None) == router.bias
    stored = router.correction and router.correction_is == "buffer"
    op = SimpleNamespace(
        top_k=spec.top_k,
        scores=router.scores,
        normalized=router.normalized,
        scale=router.scale,
        correction=stored,
        groups=router.n_groups,
        kept_groups=router.top_k_groups,
        group_score=router.group_score,
        ranked_by=router.ranked_by,
        jitter=router.jitter,
    )
    bias = {"correction_bias": node.route.correction_bias} if stored else {}
    added = () if stored or not router.correction else (node.correction.weight,)
    logits, cap = node.router(x), router.softcap
    return REFERENCES["Route"](op, bias, logits if cap is None else cap * torch.tanh(logits / cap), *added)


def check_mixture(name):
    """Each token by its own experts, one after the other."""
    spec = MIXTURES[name]
    node = layer_of(PreNorm(attention=gqa(), ffn=spec, norm=RMS)).ffn
    x = X[:, :3]
    gates, index = chosen(node, spec, x)
    expected = torch.zeros_like(x)
    for b in range(2):
        for t in range(3):
            expected[b, t] = sum(
                gate * expert(node.experts, spec.expert, e, x[b, t])
                for gate, e in zip(gates[b, t], index[b, t], strict=True)
            )
    if spec.shared is not None:
        expected = expected + node.shared(x) * (
            torch.sigmoid(node.shared_gate(x)) if spec.shared_gate else 1.0
        )
    expected = expected / 2 if spec.combination == "mean" else expected
    expected = expected if spec.out_norm is None else node.out_norm(expected)
    assert_close(node(x), expected + node.out_bias.weight if spec.out_bias else expected)


def expert(stack, spec, e, x):
    """One expert on one token."""

    def linear(leaf, y):
        return leaf.weight[e] @ y + (leaf.bias[e] if spec.bias else 0.0)

    up = linear(stack.up_proj, x)
    if isinstance(spec, MLP):
        return linear(stack.down_proj, up * torch.sigmoid(stack.activation.beta[e] * up))
    return linear(stack.down_proj, nn.functional.silu(linear(stack.gate_proj, x)) * up)


ENDS = {
    "tied": ({"embedding": Embedding(tied=True, scale="sqrt_d_model", norm=RMS)}, 4.0, lambda y: y),
    "untied": ({"head": Head(bias=True, scale=0.25)}, 1.0, lambda y: 0.25 * y),
    "softcap": (
        {"embedding": Embedding(scale=0.5), "head": Head(softcap=2.0), "final_norm": False},
        0.5,
        lambda y: 2 * torch.tanh(y / 2),
    ),
    "learned": ({"embedding": Embedding(position=Learned(max_seq_len=9, offset=2))}, 1.0, lambda y: y),
    "sinusoidal": ({"embedding": Embedding(position=Sinusoidal())}, 1.0, lambda y: y),
}


def check_ends(name):
    """Embedding, what is added to it, the layers, the final norm and the head."""
    fields, scale, shaped = ENDS[name]
    made, ids = (
        built(model(PreNorm(attention=gqa(position=NoPosition()), ffn=FFN, norm=RMS), **fields)),
        tokens(),
    )
    x = made.embedding.tokens.weight[ids] * scale
    if name == "learned":
        x = x + made.embedding.positions.weight[2:11]
    if name == "sinusoidal":
        x = x + REFERENCES["Sinusoid"](Sinusoid("s", D), {}, torch.arange(9))
    x = made.embedding.norm(x) if name == "tied" else x
    x = made.layers[0](x)[0]
    x = made.final_norm(x) if fields.get("final_norm", True) else x
    head = made.embedding.tokens if name == "tied" else made.lm_head
    expected = shaped(x @ head.weight.T + (head.bias if name == "untied" else 0.0))
    assert expected.shape == (2, 9, V)
    assert_close(made(ids), expected)


CHECKS = {
    **{f"block-{name}": lambda name=name: check_block(name) for name in BLOCKS},
    "block-multiplier": check_multiplier,
    "block-nth-branch": check_nth_branch,
    "block-bare-mixer": check_bare_mixer,
    "extra-rows": check_extra_rows,
    "transformed-head": check_transformed_head,
    **{f"norm-{name}": lambda name=name: check_norm(name) for name in NORMS},
    **{f"activation-{name}": lambda name=name: check_activation(name) for name in ACTIVATIONS},
    "activation-xielu": check_xielu,
    "inner-norm": check_inner_norm,
    "glu-biases": check_glu_biases,
    "streams": check_streams,
    **{f"attention-{name}": lambda name=name: check_attention(name) for name in ATTENTIONS},
    "attention-moa": check_mixture_of_heads,
    **{f"mla-{form}": lambda form=form: check_latent(form) for form in ("naive", "absorbed")},
    "yarn-scale": check_yarn_scale,
    "differential": check_differential,
    **{f"limits-{where}": lambda where=where: check_limits(where) for where in ("gate", "activation")},
    **{f"moe-{name}": lambda name=name: check_mixture(name) for name in MIXTURES},
    **{f"ends-{name}": lambda name=name: check_ends(name) for name in ENDS},
}
