"""What is wrong with a model.

Each mistake with the exact words it is answered with, `file:line:column: what; hint`.
"""

from pathlib import Path

from edits.adapted import ADAPTED
from edits.kinds import KINDS
from edits.values import VALUES
from table import every_row

EMBEDDING = (
    "tied, scale, position, token_types, boxes, joins, norm, norms_tokens, width, width_of, neighbours, "
    "extra_rows, dropout, more_types, joined"
)

TINY = (Path(__file__).parents[1] / "tiny.yaml").read_text()
FFN = "ffn: {kind: glu, activation: silu, d_ff: 128}"

# id: (part of tiny.yaml, what stands there instead, the answer)
EDITS = {
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
        f"7:26: unknown key 'foo'; known are {EMBEDDING}",
    ),
    "key-very-long": (
        "tied: false",
        f"tied: false, {300 * 'x'}: 3",
        f"7:26: unknown key '{39 * 'x'}…'; known are {EMBEDDING}",
    ),
    "key-missing": ("        n_heads: 8\n", "", "12:7: missing key n_heads"),
    "key-missing-from-a-short-form": (FFN, "ffn: mlp", "18:7: missing key d_ff"),
    "key-missing-for-layers": ("norm: {kind: rmsnorm, eps: 1e-5}\n", "", "1:1: missing key norm"),
    "key-group": ("groups:\n", "group:\n", "8:1: unknown key 'group'; did you mean groups?"),
    "name-escape": ("tiny-llama", '"tiny\\e[31m"', "1:7: an invisible character, U+001B; remove it"),
    "name-direction": ("tiny-llama", '"tiny\\u202e"', "1:7: an invisible character, U+202E; remove it"),
    "name-lines": ("tiny-llama", '"tiny\\nllama"', "1:7: a line break in a text; write it on one line"),
    "name-long": ("tiny-llama", "" + "x" * 501 + "", "1:7: a text of 501 characters; 500 are enough"),
}
EDITS |= VALUES | KINDS | ADAPTED

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


@every_row(("old", "new", "answer"), EDITS.values(), ids=EDITS)
def test_a_mistake_is_answered_at_its_place(old, new, answer, refused):
    assert TINY.count(old) >= 1
    assert refused(TINY.replace(old, new, 1)) == [answer]


@every_row(("text", "answers"), FILES.values(), ids=FILES)
def test_all_mistakes_of_a_file_are_answered_in_its_order(text, answers, refused):
    assert refused(text) == answers
