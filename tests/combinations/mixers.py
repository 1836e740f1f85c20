"""One YAML of every kind of mixer, and of every way such a kind remembers; a model of any of them in turn."""

LATENT = (
    "n_heads: 4, kv_lora_rank: 7, qk_nope_head_dim: 4, qk_rope_head_dim: 4, v_head_dim: 3, position: rope"
)
BLOCKWISE = "n_heads: 4, head_dim: 8, q_lora_rank: 6, o_groups: 2, o_lora_rank: 5, window: 3, position: rope"
INDEXED = "index: {top_k: 3, n_heads: 16, head_dim: 8}"
MIXERS = {
    "mha": "{kind: mha, n_heads: 4}",
    "mqa": "{kind: mqa, n_heads: 4, head_dim: 6, position: rope}",
    "gqa": "{kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, position: rope}",
    "mla": f"{{kind: mla, {LATENT}}}",
    "moa": "{kind: moa, n_heads: 4, head_dim: 6, n_experts: 4, top_k: 2, out_bias: true, position: rope}",
    "linear": "{kind: linear, n_heads: 4, chunk: 4}",
    "mla-absorbed": f"{{kind: mla, form: absorbed, {LATENT}}}",
    "mla-indexed": f"{{kind: mla, q_lora_rank: 6, {INDEXED}, {LATENT}}}",
    "mla-gated": f"{{kind: mla, q_lora_rank: 6, query_gate: true, {LATENT}}}",
    "mla-indexed-absorbed": f"{{kind: mla, form: absorbed, {INDEXED}, {LATENT}}}",
    "gqa-indexed": f"{{kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, position: rope, {INDEXED}}}",
    "mla-pools": "{kind: mla, n_heads: 4, q_lora_rank: 6, kv_lora_rank: 8, qk_nope_head_dim: 5, "
    "v_head_dim: 6, index: {kind: pools, top_k: 2, pool: 3, n_heads: 16, head_dim: 8}}",
    "gqa-blocks": "{kind: gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, position: rope, "
    "index: {kind: blocks, top_k: 2, block: 3, n_heads: 2, head_dim: 8}}",
    "value-gated": "{kind: gqa, n_heads: 4, n_kv_heads: 2, position: rope, value_gate: {top_k: 3}}",
    "performer": "{kind: linear, n_heads: 4, features: softmax, n_features: 5}",
    "windowed": "{kind: gqa, n_heads: 4, n_kv_heads: 2, window: 3, position: rope}",
    "chunked": "{kind: mha, n_heads: 4, chunk: 4, qk_norm: {per: head}}",
    "strided": "{kind: mha, n_heads: 4, sparsity: {kind: strided, stride: 3}}",
    "block-sparse": "{kind: mha, n_heads: 4, sparsity: {kind: block_sparse, block: 2, near: 2, stride: 3}}",
    "block-sparse-shifted": "{kind: gqa, n_heads: 4, n_kv_heads: 2, position: rope, "
    "sparsity: {kind: block_sparse, block: 3, near: 1, stride: 2, shifted: true}}",
    "sinks": "{kind: mha, n_heads: 4, sinks: true, softcap: 5.0}",
    "relu": "{kind: mha, n_heads: 4, normalizer: relu}",
    "alibi": "{kind: mha, n_heads: 4, position: alibi}",
    "differential": "{kind: differential, n_heads: 4, n_kv_heads: 2, lambda_init: 0.4}",
    "gated_delta_net": "{kind: gated_delta_net, n_key_heads: 2, n_value_heads: 4, key_head_dim: 5, "
    "value_head_dim: 6, chunk: 4, conv_kernel: 3, neg_eigval: true}",
    "kda-bounded": "{kind: kda, n_heads: 3, head_dim: 5, full_gates: true, decay_bound: -2.0, chunk: 4}",
    "kda": "{kind: kda, n_heads: 3, head_dim: 5, gate_rank: 4, chunk: 4, conv_kernel: 3}",
    "mamba": "{kind: mamba, d_inner: 24, state: 5, dt_rank: 3, conv_kernel: 3, dt_norm: rmsnorm}",
    "rwkv4": "{kind: rwkv4, width: 12}",
    "rg_lru": "{kind: rg_lru, width: 12, n_blocks: 3, conv_kernel: 3}",
    "mamba-heads": "{kind: mamba, d_inner: 24, n_heads: 2, state: 5, bias: true, conv_bias: false}",
    "mamba2": "{kind: mamba2, n_heads: 4, head_dim: 6, state: 5, n_groups: 2, chunk: 4, conv_kernel: 3}",
    "parallel": "{kind: parallel, branches: [{kind: gqa, n_heads: 4, n_kv_heads: 2, position: rope, "
    "in_multiplier: 0.5, out_multiplier: 2.0}, {kind: linear, n_heads: 4, n_features: 5, features: softmax}, "
    "{kind: mqa, n_heads: 4, head_dim: 6, position: rope}]}",
    "conv_gqa": "{kind: conv_gqa, n_heads: 4, n_kv_heads: 2, head_dim: 6, relative_rank: 3, "
    "relative_extent: 4, conv_kernel: 3, qk_norm: {per: head}, "
    "temperature: {floor_scale: 3, grows: log_above}}",
    "conv_gqa-windowed": "{kind: conv_gqa, n_heads: 4, n_kv_heads: 2, relative_rank: 3, relative_extent: 3, "
    "window: 3, position: rope}",
    "cca": "{kind: cca, n_heads: 4, n_kv_heads: 2, head_dim: 6, depthwise_kernel: 3, position: rope}",
    "cca-windowed": "{kind: cca, n_heads: 4, n_kv_heads: 2, head_dim: 5, grouped_kernel: 3, bias: true, "
    "window: 3}",
    "compressed": f"{{kind: compressed, {BLOCKWISE}, compressor: {{rate: 4}}}}",
    "compressed-indexed": f"{{kind: compressed, {BLOCKWISE}, compressor: {{rate: 3, overlaps: true}}, "
    "index: {top_k: 2, n_heads: 2, head_dim: 8}}",
    "short_conv": "{kind: short_conv, conv_kernel: 3, bias: true, conv_bias: true}",
    "shaw": "{kind: mha, n_heads: 4, position: {kind: shaw, max_distance: 3}}",
    "transformer-xl": "{kind: transformer_xl, n_heads: 4}",
    "lightning": "{kind: lightning, n_heads: 4, head_dim: 6, chunk: 3}",
    "mlstm": "{kind: mlstm, n_heads: 2, key_head_dim: 6, value_head_dim: 7, chunk: 3}",
    "retention": "{kind: retention, n_heads: 2, key_head_dim: 6, value_head_dim: 5, chunk: 4}",
    "bottleneck": "{kind: bottleneck, n_heads: 4, qk_width: 9, bias: true}",
    "gated-retention": "{kind: retention, n_heads: 2, key_head_dim: 6, value_head_dim: 5, decay: token}",
}
PLACED = "kind: disentangled, n_heads: 4, causal: false, bias: true"
ENCODING = {
    "disentangled": f"{{{PLACED}, buckets: 4, max_distance: 6}}",
    "disentangled-shared": f"{{{PLACED}, share: true, max_distance: 4}}",
    "fourier": "{kind: fourier}",
}
"""Mixers of encoders alone."""

OF_SUMS = {"transient-global": "{kind: transient_global, n_heads: 4, block: 4, causal: false}"}
"""Mixers whose keys are sums of blocks, too, with a bias of their own."""

OF_IMAGES = {
    "grid-window": "{kind: grid_window, n_heads: 4, side: 4, causal: false}",
    "channel": "{kind: channel, n_heads: 4, causal: false}",
    "grid-axes": "{kind: grid_axes, n_heads: 4, causal: false}",
    "grid-axes-window": "{kind: grid_axes, n_heads: 4, side: 4, causal: false}",
    "patch-window": "{kind: patch_window, n_heads: 4, n_kv_heads: 2, side: 4, causal: false}",
    "grid-conv": "{kind: grid_conv}",
}
"""Mixers of places of a grid, which encoders of images alone have."""

OF_SOUNDS = {
    "block-context": "{kind: block_context, n_heads: 4, block: 3, before: 2, reach: 2, sinusoids: true, "
    "trained_scale: true, softcap: 5.0}",
    "block-context-padded": "{kind: block_context, n_heads: 4, block: 4, pads_tokens: true, "
    "position: {kind: relative_vector, left: 3, right: 2}}",
    "transformer-xl-encoding": "{kind: transformer_xl, n_heads: 4, causal: false, spare_distance: false, "
    "pairing: interleaved}",
}
"""Mixers of encoders of sounds."""

MERGED = {
    "merged": "{kind: merged, n_heads: 4, n_kv_heads: 2, position: rope, qk_norm: {per: head}}",
    "merged-windowed": "{kind: merged, n_heads: 4, window: 3, bias: true}",
}
"""Mixers of the decoder of an encoder-decoder."""

BIASED = {"none": "", "buckets": "score_bias: {kind: buckets, n_buckets: 8, max_distance: 16}\n"}


def model(*mixers, bias="none", n_layers=None):
    """The YAML of a decoder whose layers have these mixers in turn."""
    layers = "\n".join(
        f"      - {{kind: pre_norm, attention: {MIXERS[name]}, ffn: {{kind: glu, d_ff: 20}}}}"
        for name in mixers
    )
    return f"""
name: combined
vocab_size: 29
d_model: 16
max_seq_len: 64
norm: rmsnorm
{BIASED[bias]}groups:
  - n_layers: {n_layers or 2 * len(mixers)}
    pattern:
{layers}
"""


def encoder(*mixers):
    """The YAML of an encoder whose layers have these mixers in turn."""
    layers = "\n".join(
        f"      - {{kind: post_norm, attention: {ENCODING[name]}, ffn: {{kind: mlp, d_ff: 20}}}}"
        for name in mixers
    )
    return f"""
name: combined
kind: encoder
vocab_size: 29
d_model: 16
max_seq_len: 64
norm: layernorm
{"" if {*mixers} == {"fourier"} else "relative: {size: 4}"}
embedding: {{token_types: 2}}
head: {{}}
groups:
  - n_layers: {2 * len(mixers)}
    pattern:
{layers}
"""


def long_encoder(*mixers):
    """The YAML of an encoder whose layers have these mixers of LongT5 in turn."""
    layers = "\n".join(
        f"      - {{kind: pre_norm, attention: {OF_SUMS[name]}, ffn: {{kind: mlp, d_ff: 20}}}}"
        for name in mixers
    )
    return f"""
name: combined
kind: encoder
vocab_size: 29
d_model: 16
max_seq_len: 64
norm: rmsnorm
score_bias: {{kind: token_and_block_buckets, n_buckets: 8, bidirectional: true, block: 4}}
groups:
  - n_layers: {2 * len(mixers)}
    pattern:
{layers}
"""


def pair(*mixers):
    """The YAML of an encoder-decoder whose decoder's layers have these mixers in turn."""
    layers = "\n".join(
        f"        - {{kind: sandwich, attention: {MERGED[name]}, ffn: {{kind: glu, d_ff: 20}}}}"
        for name in mixers
    )
    seen = "{kind: mha, n_heads: 4, causal: false, sparsity: {kind: centred, window: 4}}"
    return f"""
name: combined
kind: encoder_decoder
vocab_size: 29
d_model: 16
max_seq_len: 64
norm: rmsnorm
encoder:
  groups:
  - n_layers: 2
    layer: {{kind: sandwich, attention: {seen}, ffn: {{kind: glu, d_ff: 20}}}}
decoder:
  groups:
  - n_layers: {2 * len(mixers)}
    pattern:
{layers}
"""


def image_encoder(*mixers):
    """The YAML of an encoder of images whose layers have these mixers in turn, on a grid of 6 x 6 places.

    Windows of patches are cut in a sequence of them, others in the grid.
    """
    grid = f"keeps_grid: {'false' if {'patch-window', 'grid-conv'} & {*mixers} else 'true'}"
    layers = "\n".join(
        f"      - {{kind: pre_norm, attention: {OF_IMAGES[name]}, ffn: {{kind: mlp, d_ff: 20}}}}"
        for name in mixers
    )
    return f"""
name: combined
kind: media_encoder
d_model: 16
norm: layernorm
front_end: {{image_size: [12, 12], patch_size: [2, 2], class_token: false, position: none, {grid}}}
pooling: mean
n_labels: 5
groups:
  - n_layers: {2 * len(mixers)}
    pattern:
{layers}
"""


def sound_encoder(*mixers):
    """The YAML of an encoder of sounds whose Conformer layers have these mixers in turn."""
    layers = "\n".join(
        f"      - {{kind: conformer, attention: {OF_SOUNDS[name]}, ffn: {{kind: mlp, d_ff: 20}}, "
        "convolution: {kernel: 4}}"
        for name in mixers
    )
    return f"""
name: combined
kind: media_encoder
d_model: 16
norm: layernorm
front_end: {{kind: subsampled_spectrogram, n_mels: 12, channels: [3, 3], separable: true, rate: 1}}
n_labels: 5
groups:
  - n_layers: {2 * len(mixers)}
    pattern:
{layers}
"""
