"""Models of several kinds of layer, as they are published: a name, and the layers of one pattern.

A layer is what its YAML mapping holds, in pre-norm unless it begins with a kind. `MIXED` is a network, `SSD`
a mixer: names of what several have.
"""

SSD = "{kind: mamba2, n_heads: 4, head_dim: 6, state: 5, n_groups: 2, chunk: 4, conv_kernel: 3}"
GQA = "{kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, position: rope}"
MLA = "{kind: mla, n_heads: 4, kv_lora_rank: 7, qk_nope_head_dim: 4, qk_rope_head_dim: 4, v_head_dim: 3}"
WINDOWED = "{kind: gqa, n_heads: 4, n_kv_heads: 2, window: 3, position: rope}"
LINEAR = "{kind: linear, n_heads: 4}"
GLU = "ffn: {kind: glu, d_ff: 20}"
MOE = "ffn: {kind: moe, n_experts: 4, top_k: 2, expert: {kind: glu, d_ff: 10}}"

CONV = "{kind: short_conv, conv_kernel: 3}"
BRANCHES = (
    f"{{kind: parallel, branches: [{GQA[:-1]}, in_multiplier: 0.5, out_multiplier: 0.7}}, "
    f"{SSD[:-1]}, out_multiplier: 1.5}}]}}"
)
NARROW = (
    "ffn: {kind: moe, n_experts: 4, top_k: 2, latent: 10, latent_bias: true, "
    "expert: {kind: mlp, activation: relu2, d_ff: 6}, shared: {kind: mlp, activation: relu2, d_ff: 14}}"
)

CONVOLVED = "{kind: conv_gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, relative_rank: 3, relative_extent: 4}"
BESIDE = "{kind: shared_sink_moe, n_experts: 4, n_shared: 2, top_k: 2, expert: {kind: glu, d_ff: 10}}"
BEHIND = "ffn: {kind: convolved, conv_kernel: 3, network: "
GATED = (
    f"{MLA[:-1]}, position: {{kind: rope, rotates: last}}, sinks: true, output_gate: {{per: channel}}, "
    "index: {top_k: 3, n_heads: 16, head_dim: 6}"
)
STREAMS = "kind: hyper, n_streams: 3, magnitude: 1.5"
LOW_RANK = "kind: low_rank_hyper, n_streams: 3, rank: 5"
NGRAMS = (
    "ngrams: {width: 12, tables: [5, 7, 11, 13], multipliers: [3, 5, 7], boundary: 1, pad_to: 8, "
    "conv_kernel: 3}"
)
MEANS = (
    "{kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, position: rope, output_gate: {}, "
    "index: {kind: mean_pools, top_k: 2, pool: 3, n_heads: 16, head_dim: 8}}"
)
POOLED = (
    "{kind: mla, n_heads: 4, q_lora_rank: 6, kv_lora_rank: 8, qk_nope_head_dim: 5, v_head_dim: 6, "
    "index: {kind: pools, top_k: 2, pool: 3, n_heads: 16, head_dim: 8}}"
)

CCA = "{kind: cca, n_heads: 4, n_kv_heads: 2, head_dim: 6, position: rope}"
CARRIED = "{kind: carried_moe, n_experts: 4, router_width: 6, expert: {kind: glu, d_ff: 10}}"

HYBRIDS = {
    "zaya": (f"kind: carried, attention: {CCA}, ffn: {CARRIED}",),
    "inkling": (
        f"attention: {CONVOLVED}, {BEHIND}{{kind: glu, d_ff: 20}}, trained_scale: true}}",
        f"attention: {CONVOLVED}, {BEHIND}{BESIDE}}}",
    ),
    "beside-shared": (f"attention: {GQA}, ffn: {BESIDE}", f"mixer: {SSD}, {BEHIND}{{kind: glu, d_ff: 20}}}}"),
    "mamba2": (f"mixer: {SSD}",),
    "bamba": (f"mixer: {SSD}, {GLU}", f"mixer: {SSD}, {GLU}", f"attention: {GQA}, {GLU}"),
    "jamba": (f"mixer: {SSD}, {GLU}", f"attention: {GQA}, {MOE}", f"mixer: {SSD}, {MOE}"),
    "nemotron-h": (f"mixer: {SSD}", GLU, f"mixer: {SSD}", f"attention: {GQA}", GLU),
    "rwkv": ("mixer: {kind: rwkv4}, ffn: {kind: rwkv_channel_mix, d_ff: 20}",),
    "channel-mix": (f"attention: {GQA}, ffn: {{kind: rwkv_channel_mix, d_ff: 20}}", f"mixer: {SSD}, {GLU}"),
    "windows": (f"mixer: {SSD}, {GLU}", f"attention: {WINDOWED}, {GLU}"),
    "latent": (f"mixer: {LINEAR}, {GLU}", f"mixer: {LINEAR}, {GLU}", f"attention: {MLA}, {MOE}"),
    "lfm2": (f"mixer: {CONV}, {GLU}", f"mixer: {CONV}, {GLU}", f"attention: {GQA}, {MOE}"),
    "falcon-h1": (f"mixer: {BRANCHES}, {GLU}",),
    "nemotron-3": (f"mixer: {SSD}", NARROW, f"attention: {GQA}", NARROW, GLU),
    "qwen4-exp": (
        f"{LOW_RANK}, mixer: {LINEAR}, {MOE}",
        f"{LOW_RANK}, {NGRAMS}, mixer: {LINEAR}, {MOE}",
        f"{LOW_RANK}, attention: {MEANS}, {MOE}",
    ),
    "hy4": (
        f"{STREAMS}, attention: {GATED}}}, {GLU}",
        f"{STREAMS}, attention: {GATED}, index_from: 0}}, {MOE}",
    ),
    "glm5.3": (
        f"{STREAMS}, sinkhorn: 2, last: mean, mixer: {LINEAR}, {GLU}",
        f"{STREAMS}, sinkhorn: 2, last: mean, attention: {POOLED}, {MOE}",
    ),
    "streams": (f"{STREAMS}, mixer: {SSD}, {GLU}", f"{STREAMS}, {GLU}", f"{STREAMS}, attention: {WINDOWED}"),
    "networks-alone": (f"mixer: {LINEAR}", GLU),
}
"""The layers of each, in turn."""


def hybrid(name, n_layers=None, bias=""):
    """The YAML of a decoder of these layers."""
    layers = HYBRIDS[name]
    stated = (layer if layer.startswith("kind") else f"kind: pre_norm, {layer}" for layer in layers)
    pattern = "\n".join(f"      - {{{layer}}}" for layer in stated)
    return f"""
name: {name}
vocab_size: 29
d_model: 16
max_seq_len: 64
norm: rmsnorm
{bias}groups:
  - n_layers: {n_layers or 2 * len(layers)}
    pattern:
{pattern}
"""
