"""A dense model of two layers, which builds and runs in no time, as YAML."""

TINY = """
name: tiny
vocab_size: 61
d_model: 32
max_seq_len: 64
norm: rmsnorm
groups:
  - n_layers: 2
    layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4, position: rope}, ffn: {kind: glu, d_ff: 48}}
"""
