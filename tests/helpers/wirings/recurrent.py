"""How recurrent mixers are wired, written out from their papers: checks like those of checks.py."""

import torch

from archcli.modules.recurrent.decaying import Retention
from archcli.modules.recurrent.gated_norm import GatedLayerNorm, GatedRMSNorm
from archcli.modules.recurrent.mamba import Mamba2
from zoo import RMS, D, PreNorm, assert_close, built, model

X = torch.randn(2, 7, D, generator=torch.Generator().manual_seed(3))
SIZES = {"n_heads": 4, "head_dim": 3, "state": 5, "n_groups": 2, "conv_kernel": 3, "chunk": 4}
SILU = torch.nn.functional.silu


def node_of(mixer):
    return built(model(PreNorm(mixer=mixer, norm=RMS))).layers[0].mixer


def convolved(node, x):
    """Each channel over the tokens before it, one tap after another."""
    taps, kernel = node.conv.weight[:, 0], node.conv.weight.shape[-1]
    padded = torch.cat([torch.zeros(len(x), kernel - 1, x.shape[-1]), x], dim=1)
    y = sum(taps[:, i] * padded[:, i : i + x.shape[1]] for i in range(kernel))
    return y + getattr(node.conv, "bias", 0)


def normalized(norm, node, y):
    """y [..., d], each of the norm's groups by itself."""
    pieces = []
    for piece in y.chunk(norm.groups, dim=-1):
        centred = piece - piece.mean(-1, keepdim=True) if isinstance(norm, GatedLayerNorm) else piece
        pieces.append(centred / (centred.square().mean(-1, keepdim=True) + norm.eps).sqrt())
    return torch.cat(pieces, dim=-1) * node.norm.weight + getattr(node.norm, "bias", 0)


def gated(norm, node, y, z):
    if norm is None:
        return y * SILU(z)
    return (
        normalized(norm, node, y * SILU(z)) if norm.gate == "before" else normalized(norm, node, y) * SILU(z)
    )


def mamba2(spec, node, x):
    """Section 7 of arXiv:2405.21060, one token after another."""
    inner, shared = spec.n_heads * spec.head_dim, spec.n_groups * spec.state
    z, channels, dt = node.in_proj(x).split([inner, inner + 2 * shared, spec.n_heads], dim=-1)
    u, b, c = SILU(convolved(node, channels)).split([inner, shared, shared], dim=-1)
    dt = torch.log1p(torch.exp(dt + node.dt.dt_bias))
    if spec.step_limit:
        dt = dt.clamp(*spec.step_limit)
    u = u.unflatten(-1, (spec.n_heads, -1))
    b, c = (y.unflatten(-1, (spec.n_groups, -1)) for y in (b, c))
    state, y = torch.zeros(len(x), spec.n_heads, spec.state, spec.head_dim), torch.zeros_like(u)
    for t in range(x.shape[1]):
        for head in range(spec.n_heads):
            group = head // (spec.n_heads // spec.n_groups)
            decay = torch.exp(-torch.exp(node.dt.A_log[head]) * dt[:, t, head])
            added = b[:, t, group, :, None] * (dt[:, t, head, None] * u[:, t, head])[:, None]
            state[:, head] = decay[:, None, None] * state[:, head] + added
            y[:, t, head] = (state[:, head] * c[:, t, group, :, None]).sum(1) + node.D.weight[head] * u[
                :, t, head
            ]
    return node.out_proj(gated(spec.norm, node, y.flatten(-2), z))


def check_mamba2(**fields):
    spec = Mamba2(**SIZES, **fields)
    node = node_of(spec)
    assert (node.in_proj.bias is not None, node.out_proj.bias is not None) == (spec.bias, spec.bias)
    assert_close(node(X)[0], mamba2(spec, node, X))


def turned(spec, heads):
    """Each pair (i, i + N / 2) of heads [B, T, H, N] turned by position / theta^(2 i / N)."""
    half = heads.shape[-1] // 2
    rates = spec.position.theta ** (-torch.arange(half) / half)
    angles = torch.arange(heads.shape[1])[:, None, None] * rates
    a, b = heads.split(half, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)


def retention(spec, node, x):
    """Equations 5 to 8 of arXiv:2307.08621: every pair, weighed by the decays between its tokens."""
    q, k, v = (node.get_submodule(f"{name}_proj")(x).unflatten(-1, (spec.n_heads, -1)) for name in "qkv")
    q, k = turned(spec, q), turned(spec, k) / spec.key_head_dim**0.5
    y = torch.zeros_like(v)
    for head in range(spec.n_heads):
        decay = torch.full(x.shape[:2], 1 - 2.0 ** (-5 - head))
        if spec.decay == "token":
            decay = torch.sigmoid(node.a_proj(x)[..., head]) ** (1 / spec.temperature)
        for n in range(x.shape[1]):
            for m in range(n + 1):
                score = (q[:, n, head] * k[:, m, head]).sum(-1) * decay[:, m + 1 : n + 1].prod(-1)
                y[:, n, head] += score[:, None] * v[:, m, head]
    y = y / (y.square().mean(-1, keepdim=True) + spec.norm.eps).sqrt()
    return node.o_proj(y.flatten(-2) * SILU(node.g_proj(x)))


def check_retention(**fields):
    spec = Retention(n_heads=3, key_head_dim=4, value_head_dim=5, chunk=3, **fields)
    node = node_of(spec)
    assert_close(node(X)[0], retention(spec, node, X))


CHECKS = {
    "retention": check_retention,
    "retention-gated": lambda: check_retention(decay="token", temperature=2.0, bias=True),
    "mamba2": check_mamba2,
    "mamba2-biased": lambda: check_mamba2(bias=True, conv_bias=False, norm=None, step_limit=(0.1, 0.6)),
    "mamba2-gate-after": lambda: check_mamba2(norm=GatedRMSNorm(gate="after", groups=2)),
    "mamba2-layernorm": lambda: check_mamba2(norm=GatedLayerNorm(bias=True)),
}
