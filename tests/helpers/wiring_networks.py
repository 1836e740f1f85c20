"""What lies between the matrices of a feed-forward network, and which of them are biased."""

import torch
from torch import nn

from archcli.modules import GLU, MLP, XIELU, PreNorm
from wiring_attention import X, layer_of
from zoo import LN, RMS, assert_close, gqa


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
