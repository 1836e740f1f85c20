"""How attention is wired: heads, norms of queries and keys, positions, the latent of MLA.

Checks like those of checks.py.
"""

import torch

from archcli.modules import (
    GLU,
    ALiBi,
    DifferentialAttention,
    MixtureOfHeads,
    MultiHeadAttention,
    MultiQueryAttention,
    NoPosition,
    OutputGate,
    PreNorm,
    QKNorm,
    Rope,
    Softplus,
    YarnScaling,
)
from archcli.ops import Attend, RotaryTable, Rotate
from ops.references import REFERENCES
from zoo import LN, RMS, D, assert_close, built, gqa, mla, model

X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(3))
FFN = GLU(d_ff=6)


def layer_of(block):
    return built(model(block)).layers[0]


def attended(node, spec, q, k, v, scale):
    """Attention of heads by the definition, after normalizing and turning them as the spec says."""
    q, k = placed(node, spec, q, "q"), placed(node, spec, k, "k")
    alibi = spec.position.slope_exponent if isinstance(spec.position, ALiBi) else None
    extras = {"sinks": node.sinks.weight} if spec.sinks else {}
    op = Attend("attend", spec.mask, scale, softcap=spec.softcap, alibi=alibi, extras=tuple(extras))
    return REFERENCES["Attend"](op, {}, q, k, v, torch.arange(q.shape[1]), *extras.values())


def placed(node, spec, x, which):
    norm = getattr(spec, "qk_norm", None)
    if norm is None:
        return turned(spec, x)
    leaf = getattr(node, f"{which}_norm")
    normalized = (lambda y: leaf(y.flatten(-2)).view_as(y)) if norm.per == "full" else leaf
    return turned(spec, normalized(x)) if norm.when == "before_rope" else normalized(turned(spec, x))


def turned(spec, x):
    if not isinstance(spec.position, Rope):
        return x
    width = spec.position.rotary_dim or x.shape[-1]
    table = REFERENCES["RotaryTable"](RotaryTable("t", width, spec.position), {}, torch.arange(x.shape[1]))
    return REFERENCES["Rotate"](Rotate("r", spec.position.pairing), {}, x, *table)


ATTENTIONS = {
    "mha": MultiHeadAttention(n_heads=4, position=NoPosition()),
    "mqa": MultiQueryAttention(n_heads=4, head_dim=4, v_head_dim=5, position=ALiBi()),
    "gqa": gqa(bias=True, window=3),
    "gqa-partial": gqa(
        position=Rope(theta=100.0, rotary_dim=4, pairing="interleaved"),
        chunk=3,
        softcap=1.0,
        sinks=True,
        scale=0.7,
    ),
    "gqa-clip": gqa(clip=0.5, bias=("v", "o")),
    "gated": gqa(value_multiplier=0.7, v_head_dim=3, output_gate=OutputGate()),
    "gated-biased": gqa(output_gate=OutputGate(bias=True)),
    "inner-norm": gqa(inner_norm=RMS),
    "gated-heads": gqa(output_gate=OutputGate(per="head", activation=Softplus())),
    "qk-norm": gqa(qk_norm=QKNorm(norm=RMS)),
    "qk-norm-distinct": gqa(qk_norm=QKNorm(per="head_distinct", when="after_rope", norm=LN)),
    "qk-norm-full": gqa(qk_norm=QKNorm(per="full", norm=RMS)),
}


def check_attention(name):
    spec = ATTENTIONS[name]
    node = layer_of(PreNorm(attention=spec, ffn=FFN, norm=RMS)).attention
    heads = {
        "q": spec.n_heads,
        "k": {"mha": 4, "mqa": 1, "gqa": 2}[spec.kind],
        "v": {"mha": 4, "mqa": 1, "gqa": 2}[spec.kind],
    }
    bound = spec.clip or float("inf")
    q, k, v = (
        getattr(node, f"{which}_proj")(X).clamp(-bound, bound).unflatten(-1, (count, -1))
        for which, count in heads.items()
    )
    mixed = attended(node, spec, q, k, v * spec.value_multiplier, spec.scale or q.shape[-1] ** -0.5)
    merged = gated(node, spec.output_gate, mixed).flatten(-2)
    expected = node.o_proj(merged if spec.inner_norm is None else node.inner_norm(merged))
    assert_close(node(X)[0], expected)
    biased = {which for which in "qkvo" if getattr(node, f"{which}_proj").bias is not None}
    assert biased == set(spec.bias if isinstance(spec.bias, tuple) else "qkvo" if spec.bias else "")


def gated(node, gate, mixed):
    if gate is None:
        return mixed
    function = torch.sigmoid if gate.activation.kind == "sigmoid" else torch.nn.functional.softplus
    gates = node.gate_proj(X).unflatten(-1, (mixed.shape[-2], -1))
    return mixed * function(gates + node.gate_proj_heads_bias.bias[:, None] if gate.bias else gates)


def check_latent(form):
    """Keys and values rebuilt from the latent; 3 heads of 5 + 4, values 3, latent 7."""
    spec = mla(q_lora_rank=6, form=form, bias=True, output_gate=OutputGate(per="head"))
    node = layer_of(PreNorm(attention=spec, ffn=FFN, norm=RMS)).attention
    q = node.q_b_proj(node.q_a_norm(node.q_a_proj(X))).unflatten(-1, (3, 9))
    latent, shared = node.kv_a_proj(X).split([7, 4], dim=-1)
    k, v = node.kv_b_proj(node.kv_a_norm(latent)).unflatten(-1, (3, 8)).split([5, 3], dim=-1)
    q = torch.cat([q[..., :5], turned(spec, q[..., 5:])], dim=-1)
    k = torch.cat([k, turned(spec, shared[..., None, :]).expand(-1, -1, 3, -1)], dim=-1)
    plain = spec.replace(position=NoPosition())
    mixed = gated(node, spec.output_gate, attended(node, plain, q, k, v, 9**-0.5))
    assert_close(node(X)[0], node.o_proj(mixed.flatten(-2)))


def check_differential():
    """Two softmaxes over halves of the heads, the second taken off, on values of both halves side by side."""
    spec = DifferentialAttention(
        n_heads=8, n_kv_heads=4, head_dim=3, lambda_init=0.4, position=NoPosition(), norm=RMS
    )
    node = layer_of(PreNorm(attention=spec, ffn=FFN, norm=RMS)).attention
    (q1, q2), (k1, k2), (v1, v2) = (
        getattr(node, f"{which}_proj")(X).unflatten(-1, (-1, 3)).chunk(2, dim=2) for which in "qkv"
    )
    values = torch.cat([v1, v2], dim=-1)
    a, b = (attended(node, spec, q, k, values, 3**-0.5) for q, k in ((q1, k1), (q2, k2)))
    leaf = node.difference
    start = (leaf.lambda_q1 @ leaf.lambda_k1).exp() - (leaf.lambda_q2 @ leaf.lambda_k2).exp()
    mixed = 0.6 * node.difference_norm(a - (start + 0.4) * b)
    assert_close(node(X)[0], node.o_proj(mixed.flatten(-2)))


def check_mixture_of_heads():
    """Each of two experts of four asks with heads of its own; keys and values are shared."""
    spec = MixtureOfHeads(
        n_heads=4, head_dim=6, n_experts=4, top_k=2, position=Rope(theta=100.0), out_bias=True
    )
    node = layer_of(PreNorm(attention=spec, ffn=FFN, norm=RMS)).attention
    best = node.router(X).topk(2)
    asked = torch.einsum("btjoi,bti->btjo", node.q_experts.proj.weight[best.indices], X)
    q = turned(spec, asked.unflatten(-1, (2, 6)).flatten(2, 3)).unflatten(2, (2, 2))
    k = turned(spec, node.k_proj(X).unflatten(-1, (2, 6)))
    v = node.v_proj(X).unflatten(-1, (2, 6))
    scores = torch.einsum("btjhd,bshd->bjhts", q, k) * 6**-0.5
    hidden = torch.ones(X.shape[1], X.shape[1]).triu(1).bool()
    shares = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    mixed = torch.einsum("bjhts,bshd->btjhd", shares, v).flatten(-2)
    y = torch.einsum("btjoi,btji->btjo", node.o_experts.proj.weight[best.indices], mixed)
    y = (y * best.values.softmax(-1)[..., None]).sum(2)
    assert_close(node(X)[0], y + node.out_bias.weight)


def check_yarn_scale():
    """DeepSeek's YaRN multiplies the scores by (0.1 mscale_all_dim ln s + 1)^2."""
    scaling = YarnScaling(factor=4.0, original_max_seq_len=8, mscale=1.0, mscale_all_dim=1.0)
    assert scaling.amplitude == 1.0
    assert abs(scaling.score_factor - (0.1 * 1.3862943611 + 1) ** 2) < 1e-9


def check_limits(where):
    """Both branches bounded, the gate before or after its activation."""
    spec = GLU(d_ff=7, limit=0.4, limit_on=where)
    node = layer_of(PreNorm(attention=gqa(), ffn=spec, norm=RMS)).ffn
    gate, up = node.gate_proj(X), node.up_proj(X).clamp(-0.4, 0.4)
    before = torch.nn.functional.silu(gate.clamp(max=0.4))
    bounded = before if where == "gate" else torch.nn.functional.silu(gate).clamp(max=0.4)
    assert_close(node(X), node.down_proj(bounded * up))
