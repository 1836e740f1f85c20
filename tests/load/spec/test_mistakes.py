"""What is wrong with a model: each mistake with the exact words it is answered with, `file:line:column: what; hint`."""

from pathlib import Path

import pytest

from edits import ADAPTED

TINY = (Path(__file__).parents[1] / "tiny.yaml").read_text()
FFN = "ffn: {kind: glu, activation: silu, d_ff: 128}"

# id: (part of tiny.yaml, what stands there instead, the answer)
EDITS = {
    "size-fraction": ("d_ff: 128", "d_ff: 128.5", "18:48: d_ff must be a whole number above 0, not 128.5"),
    "size-real": (
        "d_ff: 128",
        "d_ff: 128.0",
        "18:48: d_ff must be a whole number above 0, not 128.0; write 128",
    ),
    "size-real-exponent": (
        "d_model: 64",
        "d_model: 6.4e1",
        "4:10: d_model must be a whole number above 0, not 6.4e1; write 64",
    ),
    "size-quoted": (
        "d_ff: 128",
        'd_ff: "128"',
        '18:48: d_ff must be a whole number above 0, not "128"; drop the quotes',
    ),
    "size-boolean": ("d_ff: 128", "d_ff: true", "18:48: d_ff must be a whole number above 0, not true"),
    "size-zero": ("d_ff: 128", "d_ff: 0", "18:48: d_ff must be a whole number above 0, not 0"),
    "size-negative": ("n_layers: 3", "n_layers: -1", "9:15: n_layers must be a whole number above 0, not -1"),
    "size-null": ("d_model: 64", "d_model:", "4:9: d_model must be a whole number above 0, not null"),
    "size-suffix-k": (
        "d_ff: 128",
        "d_ff: 8k",
        '18:48: d_ff must be a whole number above 0, not "8k"; write 8000',
    ),
    "size-suffix-K": (
        "d_ff: 128",
        "d_ff: 8K",
        '18:48: d_ff must be a whole number above 0, not "8K"; write 8192',
    ),
    "size-comma": (
        "vocab_size: 1000",
        "vocab_size: 1,000",
        '3:13: vocab_size must be a whole number above 0, not "1,000"; write 1000',
    ),
    "size-word": (
        "vocab_size: 1000",
        "vocab_size: big",
        '3:13: vocab_size must be a whole number above 0, not "big"',
    ),
    "size-list": ("d_ff: 128", "d_ff: [128]", "18:42: d_ff must be a whole number above 0, not a list"),
    "size-mapping": (
        "d_model: 64",
        "d_model: {a: 1}",
        "4:1: d_model must be a whole number above 0, not a mapping",
    ),
    "real-nan": ("eps: 1e-5", "eps: .nan", "6:28: eps must be a number above 0, not .nan"),
    "real-infinite": ("theta: 500000", "theta: .inf", "17:39: theta must be a number above 0, not .inf"),
    "real-negative-infinite": (
        "theta: 500000",
        "theta: -.INF",
        "17:39: theta must be a number above 0, not -.INF",
    ),
    "real-overflow": ("theta: 500000", "theta: 1e999", "17:39: theta must be a number above 0, not 1e999"),
    "real-zero": ("eps: 1e-5", "eps: 0.0", "6:28: eps must be a number above 0, not 0.0"),
    "real-quoted": (
        "eps: 1e-5",
        'eps: "1e-5"',
        '6:28: eps must be a number above 0, not "1e-5"; drop the quotes',
    ),
    "boolean-no": ("tied: false", "tied: no", '7:19: tied must be true or false, not "no"; write false'),
    "boolean-On": ("tied: false", "tied: On", '7:19: tied must be true or false, not "On"; write true'),
    "boolean-quoted": (
        "tied: false",
        'tied: "false"',
        '7:19: tied must be true or false, not "false"; drop the quotes',
    ),
    "boolean-number": ("tied: false", "tied: 0", "7:19: tied must be true or false, not 0"),
    "choice-misspelt": (
        "theta: 500000",
        "theta: 500000, pairing: halve",
        '17:56: pairing must be half or interleaved, not "halve"; did you mean half?',
    ),
    "choice-number-boolean": (
        "eps: 1e-5",
        "eps: 1e-5, offset: true",
        "6:42: offset must be 0 or 1, not true",
    ),
    "choice-number-real": (
        "eps: 1e-5",
        "eps: 1e-5, offset: 1.0",
        "6:42: offset must be 0 or 1, not 1.0; write 1",
    ),
    "choice-or-number": (
        "tied: false",
        "tied: false, scale: sqrt_dmodel",
        '7:33: scale must be a number above 0, or sqrt_d_model, not "sqrt_dmodel"; did you mean sqrt_d_model?',
    ),
    "list-item": (
        "n_heads: 8",
        "n_heads: 8\n        bias: [q, w]",
        '15:19: bias.1 must be q, k, v or o, not "w"',
    ),
    "list-not-one": (
        "n_heads: 8",
        "n_heads: 8\n        bias: q",
        '15:15: bias must be true or false, or a list, each q, k, v or o, not "q"; write [q]',
    ),
    "numbers-item": (
        "theta: 500000",
        "theta: 500000, scaling: {kind: longrope, factor: 2, original_max_seq_len: 8, short_factor: [1], long_factor: [0]}",
        "17:142: long_factor.0 must be a number above 0, not 0",
    ),
    "text-number": (
        "arXiv:2407.21783",
        "2407.21783",
        "2:9: source must be text, not 2407.21783; put it in quotes",
    ),
    "text-null": ("tiny-llama", "null", "1:7: name must be text, not null; leave the key out"),
    "published-text": (
        "d_model: 64",
        "d_model: 64\npublished: {params: 8B}",
        '5:21: published.params must be a whole number, not "8B"',
    ),
    "published-list": (
        "d_model: 64",
        "d_model: 64\npublished: [1]",
        "5:1: published must be a mapping, each value a whole number, not a list",
    ),
    "released-text": (
        "d_model: 64",
        "d_model: 64\nreleased: July 2024",
        "5:11: released must be a year, or a year and a month, not 'July 2024'; write 2024 or \"2024-07\"",
    ),
    "released-month": (
        "d_model: 64",
        "d_model: 64\nreleased: 2024-13",
        "5:11: released must be a year, or a year and a month, not '2024-13'; write 2024 or \"2024-07\"",
    ),
    "released-day": (
        "d_model: 64",
        "d_model: 64\nreleased: 20240723",
        "5:11: released must be a year, or a year and a month, not '20240723'; write 2024 or \"2024-07\"",
    ),
    "nullable-null-elsewhere": (
        "tied: false",
        "tied: null",
        "7:19: tied must be true or false, not null; leave the key out",
    ),
    "key-misspelt": ("d_ff: 128", "d_fff: 128", "18:42: unknown key 'd_fff'; did you mean d_ff?"),
    "key-in-capitals": ("d_model: 64", "D_Model: 64", "4:1: unknown key 'D_Model'; did you mean d_model?"),
    "key-hugging-face": (
        "d_model: 64",
        "hidden_size: 64",
        "4:1: unknown key 'hidden_size'; Hugging Face's hidden_size is d_model here",
    ),
    "key-hugging-face-below": (
        "n_heads: 8",
        "num_attention_heads: 8",
        "14:9: unknown key 'num_attention_heads'; Hugging Face's num_attention_heads is n_heads here",
    ),
    "key-belongs-below": (
        "d_model: 64",
        "d_model: 64\nn_layers: 3",
        "5:1: unknown key 'n_layers'; it belongs under groups",
    ),
    "key-belongs-below-twice": (
        FFN,
        "ffn: {kind: moe, n_experts: 2, top_k: 1, expert: {kind: glu, d_ff: 8}, d_ff: 8}",
        "18:78: unknown key 'd_ff'; it belongs under expert or shared",
    ),
    "key-unknown": (
        "tied: false",
        "tied: false, foo: 3",
        "7:26: unknown key 'foo'; known are tied, scale, position, token_types, norm, width, dropout",
    ),
    "key-very-long": (
        "tied: false",
        f"tied: false, {300 * 'x'}: 3",
        f"7:26: unknown key '{39 * 'x'}…'; known are tied, scale, position, token_types, norm, width, dropout",
    ),
    "key-missing": ("        n_heads: 8\n", "", "12:7: missing key n_heads"),
    "key-missing-from-a-short-form": (FFN, "ffn: mlp", "18:7: missing key d_ff"),
    "key-missing-for-layers": ("norm: {kind: rmsnorm, eps: 1e-5}\n", "", "1:1: missing key norm"),
    "key-group": ("groups:\n", "group:\n", "8:1: unknown key 'group'; did you mean groups?"),
    "kind-missing": ("kind: glu, ", "", "18:7: missing key kind; one of mlp, glu, moe"),
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
        "kind: group",
        "6:14: unknown kind 'group' of norm; one of rmsnorm, layernorm, batchnorm",
    ),
    "kind-number": ("kind: gqa", "kind: 3", "13:15: kind must be mha, mqa, gqa, mla or linear, not 3"),
    "kind-of-model": (
        "name: tiny-llama",
        "kind: mamba",
        "1:7: unknown kind 'mamba' of model; one of decoder, encoder, encoder_decoder",
    ),
    "kind-of-one-without": (
        "tied: false",
        "kind: tied",
        "7:13: unknown key 'kind'; known are tied, scale, position, token_types, norm, width, dropout",
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
    "module-null": (FFN, "ffn:", "18:11: ffn must be a mapping, not null; such as {kind: mlp, …}"),
    "heads-and-kv-heads": (
        "n_kv_heads: 2",
        "n_kv_heads: 3",
        "15:21: n_kv_heads 3 does not divide n_heads 8; 2 or 4 would",
    ),
    "heads-and-width": (
        "        n_heads: 8\n        n_kv_heads: 2\n        head_dim: 8\n",
        "        n_heads: 6\n        n_kv_heads: 2\n",
        "14:18: n_heads 6 does not divide d_model 64; 4 or 8 would, or state head_dim",
    ),
    "rope-odd-head": (
        "head_dim: 8",
        "head_dim: 7",
        "17:9: RoPE turns dims in pairs, and heads are 7 wide; state an even rotary_dim, or an even head_dim",
    ),
    "rope-odd": (
        "theta: 500000",
        "theta: 500000, rotary_dim: 3",
        "17:59: rotary_dim must be even, not 3; RoPE turns dims in pairs",
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
        "15:17: window is about scores, of which linear attention has none; leave it out",
    ),
    "linear-with-relu": (
        "kind: gqa\n        n_heads: 8\n        n_kv_heads: 2",
        "kind: linear\n        n_heads: 8\n        normalizer: relu",
        "15:21: linear attention has no scores to normalize; leave it out",
    ),
    "linear-with-alibi": (
        "kind: gqa\n        n_heads: 8\n        n_kv_heads: 2\n        head_dim: 8\n        position: {kind: rope, theta: 500000}",
        "kind: linear\n        n_heads: 8\n        position: alibi",
        "15:19: a bias on scores, of which linear attention has none; use rope, or what is added to the embedding",
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
    "name-escape": ("tiny-llama", '"tiny\\e[31m"', "1:7: an invisible character, U+001B; remove it"),
    "name-direction": ("tiny-llama", '"tiny\\u202e"', "1:7: an invisible character, U+202E; remove it"),
    "name-lines": ("tiny-llama", '"tiny\\nllama"', "1:7: a line break in a text; write it on one line"),
    "name-long": ("tiny-llama", "" + "x" * 501 + "", "1:7: a text of 501 characters; 500 are enough"),
}
EDITS |= ADAPTED

# id: (a whole file, the answers)
FILES = {
    "groups-empty": (
        "vocab_size: 3\nd_model: 3\nnorm: rmsnorm\ngroups: []\n",
        ["4:1: groups must not be empty"],
    ),
    "groups-null": (
        "vocab_size: 3\nd_model: 3\nnorm: rmsnorm\ngroups:\n",
        ["4:8: groups must be a list, not null; begin each entry with '- '"],
    ),
    "group-number": (
        "vocab_size: 3\nd_model: 3\nnorm: rmsnorm\ngroups: [3]\n",
        ["4:10: groups.0 must be a mapping, not 3"],
    ),
    "group-without-layer": (
        "vocab_size: 3\nd_model: 3\nnorm: rmsnorm\ngroups: [{n_layers: 3}]\n",
        ["4:10: a group needs a layer, or a pattern of layers; add layer: {kind: pre_norm, …}"],
    ),
    "learned-without-length": (
        (
            "vocab_size: 3\n"
            "d_model: 4\n"
            "norm: rmsnorm\n"
            "embedding: {position: learned}\n"
            "groups:\n"
            "  - n_layers: 1\n"
            "    layer: {kind: pre_norm, attention: {kind: mha, n_heads: 2}, ffn: {kind: mlp, d_ff: 3}}\n"
        ),
        ["4:13: missing key max_seq_len; give it here, or once at the top of the file"],
    ),
    "several-at-once": (
        (
            "vocab_size: true\n"
            "d_modle: 4\n"
            "norm: {kind: rmsnrom}\n"
            "groups:\n"
            "  - n_layers: 0\n"
            "    layer: {kind: pre_norm, attention: {kind: mha}, ffn: {kind: mlp, d_ff: 3, d_ff: 4}}\n"
        ),
        [
            "1:13: vocab_size must be a whole number above 0, not true",
            "2:1: unknown key 'd_modle'; did you mean d_model?",
            "3:14: unknown kind 'rmsnrom' of norm; did you mean rmsnorm?",
            "5:15: n_layers must be a whole number above 0, not 0",
            "6:29: missing key n_heads",
            "6:79: duplicate key 'd_ff'; it is already at column 70",
        ],
    ),
}


@pytest.mark.parametrize(("old", "new", "answer"), EDITS.values(), ids=EDITS)
def test_a_mistake_is_answered_at_its_place(old, new, answer, refused):
    assert TINY.count(old) >= 1
    assert refused(TINY.replace(old, new, 1)) == [answer]


@pytest.mark.parametrize(("text", "answers"), FILES.values(), ids=FILES)
def test_all_mistakes_of_a_file_are_answered_in_its_order(text, answers, refused):
    assert refused(text) == answers
