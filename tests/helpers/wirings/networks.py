"""What lies between the matrices of a feed-forward network, which are biased; and its streams."""

import torch
from torch import nn

from archcli.modules import GLU, MLP, XIELU, HyperConnected, PreNorm, RMSNorm
from wirings.attention import X, layer_of
from zoo import LN, RMS, assert_close, built, gqa, model, tokens


def check_xielu():
    """Apertus's activation: a parabola above 0, an exponential below, on a line of slope beta."""
    node = layer_of(PreNorm(attention=gqa(), ffn=MLP(d_ff=7, activation=XIELU(beta=0.4)), norm=RMS)).ffn
    above = torch.log1p(node.activation.alpha_p.exp())
    below = 0.4 + torch.log1p(node.activation.alpha_n.exp())
    x = node.up_proj(X)
    curve = torch.where(x > 0, above * x**2, below * (x.exp() - 1 - x))
    assert_close(node(X), node.down_proj(curve + 0.4 * x))


def check_inner_norm():
    """BitNet's norm between the matrices of a network."""
    node = layer_of(PreNorm(attention=gqa(), ffn=MLP(d_ff=7, inner_norm=LN), norm=RMS)).ffn
    assert_close(node(X), node.down_proj(node.inner_norm(nn.functional.gelu(node.up_proj(X)))))
    node = layer_of(PreNorm(attention=gqa(), ffn=GLU(d_ff=7, inner_norm=LN), norm=RMS)).ffn
    gated = nn.functional.silu(node.gate_proj(X)) * node.up_proj(X)
    assert_close(node(X), node.down_proj(node.inner_norm(gated)))


def check_glu_biases():
    """TeleChat's network, of whose three matrices only the last is biased."""
    node = layer_of(PreNorm(attention=gqa(), ffn=GLU(d_ff=7, bias=("down",)), norm=RMS)).ffn
    assert (node.gate_proj.bias, node.up_proj.bias) == (None, None)
    gated = nn.functional.silu(X @ node.gate_proj.weight.T) * (X @ node.up_proj.weight.T)
    assert_close(node(X), gated @ node.down_proj.weight.T + node.down_proj.bias)


def gates(node, name, x, *magnitudes):
    """Gates of streams x, from all of them together."""
    joined = x.flatten(-2)
    joined = joined / (joined.square().mean(-1, keepdim=True) + 0.3).sqrt()
    trained, sets = getattr(node, f"{name}_gates"), len(magnitudes)
    base = trained.base.view(sets, -1)
    logits = getattr(node, name)(joined).unflatten(-1, (sets, -1)) * trained.scale.view(sets, 1) + base
    return [m / (1 + torch.exp(-z)) + 0.2 for m, z in zip(magnitudes, logits.unbind(-2), strict=True)]


def check_streams():
    """Hyper-connections, from the embeddings to what the last norm reads."""
    block = HyperConnected(
        attention=gqa(),
        ffn=MLP(d_ff=7),
        norm=RMS,
        n_streams=3,
        magnitude=1.5,
        eps=0.2,
        stream_norm=RMSNorm(eps=0.3, weight=False),
    )
    made, ids = built(model(block, n_layers=1)), tokens()
    node, x = made.layers[0], made.embedding.tokens.weight[ids]
    x = torch.stack([x, x, x], dim=-2)
    for step in ("attention", "ffn"):
        gather, back = gates(node, f"{step}_hyper", x, 1.0, 1.5)
        read = getattr(node, f"{step}_norm")((gather[..., None] * x).sum(-2))
        y = node.attention(read)[0] if step == "attention" else node.ffn(read)
        x = x + back[..., None] * y[..., None, :]
    [last] = gates(made, "hyper_head", x, 1.0)
    assert_close(made(ids), made.lm_head(made.final_norm((last[..., None] * x).sum(-2))))
