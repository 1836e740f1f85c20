"""Mistakes in which kind a module is, and in what kinds take beside one another.

As EDITS of test_mistakes.py. Lists of kinds are those of the table, in its order.
"""

from archcli.modules import SoftmaxAttention
from archcli.modules.spec.kinds import KINDS as OF_FAMILIES
from archcli.modules.spec.kinds import kinds


def listed(words):
    """Words as a message lists them."""
    *first, last = words
    return f"{', '.join(first)} or {last}"


SOFTMAX = listed(name for name, cls in kinds("attention").items() if issubclass(cls, SoftmaxAttention))
"""Mixers with a softmax over scores."""


FFN = "ffn: {kind: glu, activation: silu, d_ff: 128}"

KINDS = {
    "kind-missing": ("kind: glu, ", "", f"18:7: missing key kind; one of {', '.join(OF_FAMILIES['ffn'])}"),
    "kind-misspelt": (
        "kind: gqa",
        "kind: ggqa",
        "13:15: unknown kind 'ggqa' of attention; did you mean gqa?",
    ),
    "kind-in-capitals": (
        "kind: rmsnorm",
        "kind: RMSNorm",
        "6:14: unknown kind 'RMSNorm' of norm; did you mean rmsnorm?",
    ),
    "kind-by-its-usage": (
        "kind: glu",
        "kind: swiglu",
        "18:19: unknown kind 'swiglu' of ffn; write {kind: glu, activation: silu}",
    ),
    "kind-unknown": (
        "kind: rmsnorm",
        "kind: weight",
        f"6:14: unknown kind 'weight' of norm; one of {', '.join(OF_FAMILIES['norm'])}",
    ),
    "kind-number": (
        "kind: gqa",
        "kind: 3",
        f"13:15: kind must be {listed(OF_FAMILIES['attention'])}, not 3",
    ),
    "kind-of-model": (
        "name: tiny-llama",
        "kind: mamba",
        f"1:7: unknown kind 'mamba' of model; one of {', '.join(OF_FAMILIES['model'])}",
    ),
    "kind-of-one-without": (
        "tied: false",
        "kind: tied",
        "7:13: unknown key 'kind'; did you mean joined?",
    ),
    "groups-mapping": (
        "  - n_layers: 3",
        "    n_layers: 3",
        "8:1: groups must be a list, not a mapping; begin each entry with '- '",
    ),
    "module-number": (FFN, "ffn: 128", "18:12: ffn must be a mapping, not 128; such as {kind: mlp, …}"),
    "module-list": (
        "norm: {kind: rmsnorm, eps: 1e-5}",
        "norm: [rmsnorm]",
        "6:1: norm must be a mapping, not a list; such as {kind: rmsnorm, …}",
    ),
    "module-text": (
        "embedding: {tied: false}",
        "embedding: tied",
        '7:12: embedding must be a mapping, not "tied"',
    ),
    "module-null": ("embedding: {tied: false}", "embedding:", "7:11: embedding must be a mapping, not null"),
    "attention-and-mixer": (
        FFN,
        f"{FFN}\n      mixer: {{kind: mha, n_heads: 8}}",
        "19:7: attention and mixer are one key under two names; leave one of them out",
    ),
    "heads-and-kv-heads": (
        "n_kv_heads: 2",
        "n_kv_heads: 3",
        "15:21: n_kv_heads 3 does not divide n_heads 8; use 2 or 4",
    ),
    "heads-and-width": (
        "        n_heads: 8\n        n_kv_heads: 2\n        head_dim: 8\n",
        "        n_heads: 6\n        n_kv_heads: 2\n",
        "14:18: n_heads 6 does not divide d_model 64; use 4 or 8, or state head_dim",
    ),
    "rope-odd-head": (
        "head_dim: 8",
        "head_dim: 7",
        (
            "16:19: RoPE rotates dimensions in pairs, and head_dim is 7; state an even head_dim, "
            "or an even rotary_dim"
        ),
    ),
    "rope-odd": (
        "theta: 500000",
        "theta: 500000, rotary_dim: 3",
        "17:59: rotary_dim must be even, not 3; RoPE rotates dimensions in pairs",
    ),
    "window-and-chunk": (
        "n_heads: 8",
        "n_heads: 8\n        window: 4\n        chunk: 4",
        "16:16: a layer has one pattern, not window and chunk; leave one of them out",
    ),
    "sparsity-of-a-decoder": (
        "n_heads: 8",
        "n_heads: 8\n        sparsity: {kind: longformer, window: 4}",
        "15:9: the pattern looks to both sides; state causal: false",
    ),
    "sparsity-of-an-encoder": (
        "n_heads: 8",
        "n_heads: 8\n        causal: false\n        sparsity: {kind: strided, stride: 4}",
        "16:9: the pattern looks back alone; leave causal out",
    ),
    "sinks-without-softmax": (
        "n_heads: 8",
        "n_heads: 8\n        normalizer: relu\n        sinks: true",
        "16:16: sinks are logits of a softmax, and normalizer relu has none; leave one of them out",
    ),
    "linear-with-a-window": (
        "kind: gqa\n        n_heads: 8\n        n_kv_heads: 2",
        "kind: linear\n        n_heads: 8\n        window: 4",
        f"15:9: unknown key 'window'; a key of {SOFTMAX}, not of linear",
    ),
    "linear-with-relu": (
        "kind: gqa\n        n_heads: 8\n        n_kv_heads: 2",
        "kind: linear\n        n_heads: 8\n        normalizer: relu",
        f"15:9: unknown key 'normalizer'; a key of {SOFTMAX}, not of linear",
    ),
    "linear-with-alibi": (
        (
            "kind: gqa\n        n_heads: 8\n        n_kv_heads: 2\n        head_dim: 8\n        "
            "position: {kind: rope, theta: 500000}"
        ),
        "kind: linear\n        n_heads: 8\n        position: alibi",
        (
            "15:19: a bias on scores, of which linear attention has none; use rope, or what is added to "
            "the embedding"
        ),
    ),
    "buckets-too-few": (
        "tied: false}",
        "tied: false}\nscore_bias: {kind: buckets, n_buckets: 3, bidirectional: true}",
        "8:40: n_buckets 3 has none for far distances; 4 at least",
    ),
    "buckets-too-near": (
        "tied: false}",
        "tied: false}\nscore_bias: {kind: buckets, n_buckets: 32, max_distance: 16}",
        "8:58: max_distance 16 is among the 16 near ones; 17 at least",
    ),
    "shared-layer": (
        "d_model: 64",
        "d_model: 64\nlayer: {ffn: {d_fff: 3}}",
        "5:15: unknown key 'd_fff'; did you mean d_ff?",
    ),
}
