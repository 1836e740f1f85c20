"""Mistakes in what changes weights and training: adapters, quantization, dropout, batch norm.

As EDITS of test_mistakes.py.
"""

ADAPTED = {
    "adapter-target": (
        "d_model: 64",
        "d_model: 64\nlora: {rank: 4, targets: [q, vv]}",
        (
            "5:30: no projection of this model is called 'vv'; it has embedding, q, k, v, o, gate, up, "
            "down, lm_head; or all_linear"
        ),
    ),
    "adapter-target-alone": (
        "d_model: 64",
        "d_model: 64\nlora: {rank: 4, targets: q}",
        '5:26: targets must be a list, each text, not "q"; write [q]',
    ),
    "adapter-no-target": (
        "d_model: 64",
        "d_model: 64\nlora: {rank: 4, targets: []}",
        "5:17: targets must not be empty; name projections, such as [q, v], or leave lora out",
    ),
    "adapter-rank": (
        "d_model: 64",
        "d_model: 64\nlora: {rank: 0}",
        "5:14: rank must be a whole number above 0, not 0",
    ),
    "adapter-peft-key": (
        "d_model: 64",
        "d_model: 64\nlora: {rank: 4, lora_alpha: 8}",
        "5:17: unknown key 'lora_alpha'; did you mean alpha?",
    ),
    "adapter-true": ("d_model: 64", "d_model: 64\nlora: true", "5:7: lora must be a mapping, not true"),
    "quantized-nothing": (
        "d_model: 64",
        "d_model: 64\nquantization: {bits: 4, rules: [{match: layers.3-5.ffn, bits: 2}]}",
        (
            "5:41: no matrix of this model is called 'layers.3-5.ffn'; it has embedding, attention, "
            "ffn, lm_head; "
            "or write steps of a path, such as layers.0-3.ffn"
        ),
    ),
    "quantized-without-bits": (
        "d_model: 64",
        "d_model: 64\nquantization: {group_size: 32}",
        "5:1: missing key bits; write how many, or the name of a format: q4_k_m",
    ),
    "quantized-half-bits": (
        "d_model: 64",
        "d_model: 64\nquantization: {bits: 1.58}",
        "5:22: bits must be a whole number above 0, or dtype, not 1.58",
    ),
    "quantized-group": (
        "d_model: 64",
        "d_model: 64\nquantization: {bits: 4, group_size: rows}",
        '5:37: group_size must be a whole number above 0, or row or tensor, not "rows"; did you mean row?',
    ),
    "dropout-whole": (
        "tied: false",
        "tied: false, dropout: 1",
        "7:35: dropout must be a number of at least 0 and below 1, not 1",
    ),
    "dropout-percent": (
        "n_heads: 8",
        "n_heads: 8\n        dropout: 10%",
        '15:18: dropout must be a number of at least 0 and below 1, not "10%"',
    ),
    "batch-norm-momentum": (
        "kind: rmsnorm, eps: 1e-5",
        "kind: batchnorm, momentum: 2",
        "6:35: momentum must be a number above 0 and of at most 1, not 2",
    ),
    "batch-norm-per-head-and-channel": (
        "kind: rmsnorm, eps: 1e-5}",
        "kind: batchnorm}\nlayer: {attention: {qk_norm: {per: head_distinct}}}",
        "7:36: batchnorm has a gain per channel, not per head and channel; use per: full, or another norm",
    ),
}
