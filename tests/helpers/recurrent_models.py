"""Small models with each kind of recurrent mixer, and presets of such with fewer layers."""

from archcli.load.source import load

MIXERS = {
    "mamba": "{kind: mamba, d_inner: 48, state: 8, dt_rank: 4}",
    "mamba-norms": "{kind: mamba, d_inner: 48, dt_rank: 4, "
    "dt_norm: {kind: rmsnorm, eps: 1e-6, weight: false}}",
    "mamba-heads": "{kind: mamba, d_inner: 48, dt_rank: 4, n_heads: 2}",
    "mamba2": "{kind: mamba2, n_heads: 4, head_dim: 16, state: 8, chunk: 32}",
    "mamba2-groups": "{kind: mamba2, n_heads: 4, head_dim: 16, state: 8, n_groups: 2, chunk: 32, "
    "step_limit: [0.001, null], norm: {kind: rmsnorm, eps: 1e-5, groups: 2}}",
    "mamba2-no-norm": "{kind: mamba2, n_heads: 4, head_dim: 16, state: 8, chunk: 32, norm: null}",
    "gated-delta-net": "{kind: gated_delta_net, n_key_heads: 2, n_value_heads: 4, key_head_dim: 8, "
    "value_head_dim: 16, chunk: 32, norm: {kind: rmsnorm, gate: after, eps: 1e-6}}",
    "gated-delta-net-alike": "{kind: gated_delta_net, n_key_heads: 2, n_value_heads: 2, key_head_dim: 8, "
    "value_head_dim: 16, chunk: 32}",
    "kda": "{kind: kda, n_heads: 2, head_dim: 16, chunk: 32}",
    "kda-bounded": "{kind: kda, n_heads: 2, head_dim: 16, chunk: 32, decay_bound: -5.0, full_gates: true}",
    "lightning": "{kind: lightning, n_heads: 2, head_dim: 16, chunk: 32}",
    "retention": "{kind: retention, n_heads: 2, key_head_dim: 8, value_head_dim: 16, chunk: 32}",
    "mlstm": "{kind: mlstm, n_heads: 2, key_head_dim: 8, value_head_dim: 16, chunk: 32}",
    "rwkv4": "{kind: rwkv4}",
    "rg-lru": "{kind: rg_lru, width: 32, n_blocks: 4}",
    "short-conv": "{kind: short_conv, conv_kernel: 3}",
    "beside-attention": "{kind: parallel, branches: [{kind: gqa, n_heads: 4, n_kv_heads: 2, position: rope}, "
    "{kind: mamba2, n_heads: 4, head_dim: 16, state: 8, chunk: 32, norm: null}]}",
    "linear-attention": "{kind: linear, n_heads: 4, chunk: 32}",
    "performer": "{kind: linear, n_heads: 4, chunk: 32, features: softmax, n_features: 12}",
}
"""Small mixers: 64, 80 and 150 tokens are several chunks."""
MODEL = """
name: small
vocab_size: 96
d_model: 32
norm: {kind: rmsnorm, eps: 1e-5}
groups:
  - n_layers: 3
    layer: {kind: pre_norm, FIELD: MIXER, ffn: {kind: glu, activation: silu, d_ff: 48}}
"""
PRESETS = {
    "mamba-130m": ("n_layers=3",),
    "falcon-mamba-7b": ("n_layers=3",),
    "jamba-1.5-mini": ("n_layers=8",),
    "bamba-9b": ("groups.0.n_layers=1", "groups.1.n_layers=3"),
    "zamba-7b": ("groups.0.n_layers=3", "groups.1.n_layers=4"),
    "zamba2-1.2b": ("n_layers=7",),
    "falcon-h1-0.5b": ("n_layers=3",),
    "granite-4.0-h-tiny": ("groups.0.n_layers=1", "groups.1.n_layers=3"),
    "nemotron-h-8b": ("groups.0.n_layers=2", "groups.1.n_layers=3", "groups.2.n_layers=1"),
    "nemotron-3-nano-30b-a3b": (
        *("groups.0.n_layers=7", "groups.1.n_layers=2", "groups.2.n_layers=2"),
        "groups.3.n_layers=2",
    ),
    "qwen3-next-80b-a3b": ("n_layers=4",),
    "qwen3.5-9b": ("n_layers=4",),
    "kimi-linear-48b-a3b": ("groups.1.n_layers=4",),
    "minimax-text-01": ("n_layers=8",),
    "retnet-6.7b": ("n_layers=3",),
    "rwkv-4-169m": ("n_layers=3",),
    "xlstm-7b": ("n_layers=3",),
    "recurrentgemma-2b": ("n_layers=5", "window=48"),
    "lfm2-350m": ("groups.0.n_layers=3", "groups.1.n_layers=2"),
    "lfm2-8b-a1b": ("groups.1.n_layers=4",),
}
"""Presets with fewer layers; on meta their widths cost nothing."""


def mixing(name, folder):
    """The small model with the mixer of that name, read from a file in a folder."""
    field = "attention" if "kind: linear" in MIXERS[name] else "mixer"
    path = folder / "model.yaml"
    path.write_text(MODEL.replace("FIELD", field).replace("MIXER", MIXERS[name]), encoding="utf-8")
    return load(str(path)).model
