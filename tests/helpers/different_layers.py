"""A decoder of Llama's kind with layers that all differ, as a YAML: OpenELM's scaling, carried further."""

HEAD = """name: different-layers
vocab_size: 32000
d_model: 1024
max_seq_len: 4096
norm: {kind: rmsnorm, eps: 1e-5}
embedding: {tied: false}
groups:
"""
LAYER = """  - n_layers: 1
    layer:
      kind: pre_norm
      attention: {kind: gqa, n_heads: 16, n_kv_heads: 4, head_dim: 64, %sposition: rope}
      ffn: {kind: glu, d_ff: %d}
"""


def different_layers(n: int, *, windows: bool = False) -> str:
    """The text of n groups of one layer, d_ff 64 wider from each to the next; `windows` differ likewise."""
    layers = (LAYER % (f"window: {64 + i}, " if windows else "", 1024 + 64 * i) for i in range(n))
    return HEAD + "".join(layers)
