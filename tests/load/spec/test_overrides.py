"""--set KEY=VALUE: what it changes, and how a mistaken one is answered."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.modules import settings
from table import every_row

TWO_GROUPS = """\
vocab_size: 100
d_model: 64
max_seq_len: 32
norm: rmsnorm
embedding: {position: learned}
layer:
  kind: pre_norm
  attention: {kind: mha, n_heads: 4}
  ffn: {kind: mlp, activation: gelu, d_ff: 128}
groups:
  - n_layers: 1
  - n_layers: 2
    pattern:
      - attention: {window: 8}
      - {ffn: {d_ff: 256}}
"""

LAYERS = ("0.layer", "1.pattern.0", "1.pattern.1")

# id: (KEY=VALUE, the settings that differ from the file's afterwards)
CHANGES = {
    "top": ("d_model=32", {"d_model": 32}),
    "path": ("groups.0.layer.ffn.d_ff=96", {"groups.0.layer.ffn.d_ff": 96}),
    "path-into-a-pattern": (
        "groups.1.pattern.0.attention.window=4",
        {"groups.1.pattern.0.attention.window": 4},
    ),
    "path-not-written-yet": ("head.bias=true", {"head.bias": True}),
    "path-through-a-short-form": ("embedding.position.offset=2", {"embedding.position.offset": 2}),
    "path-into-what-is-shared": (
        "layer.attention.sinks=true",
        {f"groups.{layer}.attention.sinks": True for layer in ("0.layer", "1.pattern.0", "1.pattern.1")},
    ),
    "everywhere": (
        "n_heads=8",
        {f"groups.{layer}.attention.n_heads": 8 for layer in ("0.layer", "1.pattern.0", "1.pattern.1")},
    ),
    "everywhere-where-it-is-inherited": (
        "eps=1e-3",
        {
            f"{at}norm.eps": 1e-3
            for at in ("", "groups.0.layer.", "groups.1.pattern.0.", "groups.1.pattern.1.")
        },
    ),
    "end-of-a-path": (
        "ffn.activation=silu",
        {f"groups.{layer}.ffn.activation.kind": "silu" for layer in LAYERS},
    ),
    "end-of-a-path-to-a-kind": (
        "attention.kind=mqa",
        {f"groups.{layer}.attention.kind": "mqa" for layer in LAYERS},
    ),
    "part-by-its-name": (
        "activation=relu",
        {f"groups.{layer}.ffn.activation.kind": "relu" for layer in LAYERS},
    ),
    "inherited-by-its-name": ("max_seq_len=64", {"max_seq_len": 64, "embedding.position.max_seq_len": 64}),
    "inherited-part": (
        "norm.offset=1",
        {
            f"{at}norm.offset": 1
            for at in ("", "groups.0.layer.", "groups.1.pattern.0.", "groups.1.pattern.1.")
        },
    ),
    "everywhere-in-what-is-not-written": ("tied=true", {"embedding.tied": True}),
    "thousands": ("vocab_size=8k", {"vocab_size": 8000}),
    "kibis": ("vocab_size=8K", {"vocab_size": 8192}),
    "half-a-kibi": ("vocab_size=.5K", None),
    "grouped-digits": ("vocab_size=32_000", {"vocab_size": 32_000}),
    "null": ("groups.1.pattern.0.attention.window=null", {"groups.1.pattern.0.attention.window": None}),
    "blank-before": ("vocab_size= 7", {"vocab_size": 7}),
    "text": ("name=no", {"name": "no"}),
    "equals-sign": ("name=a=b", {"name": "a=b"}),
}


def after(*overrides):
    return dict(settings(load_text(TWO_GROUPS, "f", overrides).model))


@every_row(("override", "changes"), CHANGES.values(), ids=CHANGES)
def test_an_override_changes_what_it_names_and_nothing_else(override, changes, refused):
    if changes is None:
        assert refused(TWO_GROUPS, override)
        return
    before, now = after(), after(override)
    assert {path: value for path, value in now.items() if before.get(path, before) != value} == changes


def test_a_whole_part_can_be_replaced():
    now = after(
        "norm={kind: layernorm, bias: false}", "groups.0.layer.ffn={kind: glu, d_ff: 96, activation: silu}"
    )
    assert (now["norm.kind"], now["groups.1.pattern.0.norm.bias"]) == ("layernorm", False)
    assert (now["groups.0.layer.ffn.kind"], now["groups.1.pattern.0.ffn.kind"]) == ("glu", "mlp")


def test_a_bare_name_changes_what_is_inherited_without_losing_the_rest_of_it():
    text = TWO_GROUPS.replace("norm: rmsnorm", "norm: {kind: rmsnorm, offset: 1}")
    now = dict(settings(load_text(text, "f", ["eps=1e-3"]).model))
    assert (now["norm.eps"], now["groups.0.layer.norm.eps"], now["groups.0.layer.norm.offset"]) == (
        1e-3,
        1e-3,
        1,
    )


def test_a_bare_name_at_the_top_also_changes_its_namesakes_below():
    text = TWO_GROUPS.replace("{position: learned}", "{position: {kind: learned, max_seq_len: 32}}")
    now = dict(settings(load_text(text, "f", ["max_seq_len=64"]).model))
    assert (now["max_seq_len"], now["embedding.position.max_seq_len"]) == (64, 64)


def test_the_last_of_two_wins():
    assert after("d_model=32", "d_model=16")["d_model"] == 16


def test_what_is_aliased_is_changed_only_where_it_is_named():
    text = TWO_GROUPS.replace("- n_layers: 1\n", "- &first {n_layers: 1}\n  - *first\n")
    now = dict(settings(load_text(text, "f", ["groups.1.n_layers=5"]).model))
    assert [now[f"groups.{i}.n_layers"] for i in range(3)] == [1, 5, 2]


KEYS = "such as d_ff=11008 or groups.0.layer.ffn.d_ff=11008"

# id: (KEY=VALUEs, the answers)
MISTAKES = {
    "no-value": (["d_model"], [f"--set:1:7: KEY=VALUE is needed; {KEYS}"]),
    "no-key": (["=3"], [f"--set:1:7: KEY=VALUE is needed; {KEYS}"]),
    "empty-step": (["groups..n_layers=3"], [f"--set:1:7: KEY=VALUE is needed; {KEYS}"]),
    "too-many-steps": ([999 * "a." + "a=1"], [f"--set:1:7: KEY=VALUE is needed; {KEYS}"]),
    "empty-value": (["d_model="], ["--set:1:7: no value for 'd_model'; write null for none"]),
    "comment-for-a-value": (["d_model=# 3"], ["--set:1:7: no value for 'd_model'; write null for none"]),
    "not-yaml": (["d_model=[1"], ["--set:1:15: this list is not closed; it ends with ]"]),
    "two-documents": (
        ["d_model=3\n---\n4"],
        ["--set:2:1: a second document begins here; a file holds one model"],
    ),
    "duplicate-key": (
        ["norm={eps: 1, eps: 2}"],
        ["--set:1:21: duplicate key 'eps'; it is already at column 13"],
    ),
    "control-character": (["name=\x1b[31m"], ["--set:1:12: a control character, U+001B; remove it"]),
    "wrong-type": (["d_model=true"], ["--set:1:15: d_model must be a whole number above 0, not true"]),
    "wrong-type-real": (
        ["d_model=64.0"],
        ["--set:1:15: d_model must be a whole number above 0, not 64.0; write 64"],
    ),
    "wrong-fraction-of-k": (
        ["d_model=1.0005k"],
        ['--set:1:15: d_model must be a whole number above 0, not "1.0005k"'],
    ),
    "unknown-name": (["d_modle=3"], ["--set:1:7: no field is called 'd_modle'; did you mean d_model?"]),
    "unknown-path": (["groups.0.layer.ffn.dff=3"], ["--set:1:7: unknown key 'dff'; did you mean d_ff?"]),
    "no-such-entry": (
        ["groups.2.n_layers=3"],
        ["--set:1:7: no entry '2' in groups; groups has the entries 0 to 1"],
    ),
    "no-such-entry-below": (
        ["groups.1.pattern.x.kind=parallel"],
        ["--set:1:7: no entry 'x' in groups.1.pattern; groups.1.pattern has the entries 0 to 1"],
    ),
    "unknown-end-of-a-path": (
        ["ffn.dff=3"],
        ["--set:1:7: no path ends in 'ffn.dff'; did you mean d_ff or ffn?"],
    ),
    "differing-ends-of-paths": (
        ["ffn.d_ff=96"],
        [
            (
                "--set:1:7: ffn.d_ff stands for fields of different values; name one: "
                "groups.0.layer.ffn.d_ff (128), groups.1.pattern.0.ffn.d_ff (128), "
                "groups.1.pattern.1.ffn.d_ff (256)"
            )
        ],
    ),
    "below-a-number": (["d_model.x=3"], ["--set:1:7: d_model is 64, not a mapping; it has no 'x'"]),
    "differing-values": (
        ["d_ff=96"],
        [
            (
                "--set:1:7: d_ff stands for fields of different values; name one: "
                "groups.0.layer.ffn.d_ff (128), groups.1.pattern.0.ffn.d_ff (128), "
                "groups.1.pattern.1.ffn.d_ff (256)"
            )
        ],
    ),
    "kind-that-lacks-a-key": (
        ["embedding.position.offset=1", "groups.0.layer.attention={kind: mla}"],
        [
            f"--set:1:7: missing key {key}"
            for key in ("kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "n_heads")
        ],
    ),
    "inherited-part-of-a-layer": (
        ["groups.0.layer.norm.eps=1e-3"],
        [
            (
                "--set:1:7: missing key kind; one of rmsnorm, layernorm, batchnorm, "
                "self_gated, prescaled_rmsnorm, affine; "
                "nothing is written there that --set could change"
            )
        ],
    ),
    "steps-left-out": (
        ["groups.0.d_ff=7", "groups.n_layers=2"],
        [
            "--set:1:7: unknown key 'd_ff'; did you mean groups.0.layer.ffn.d_ff?",
            (
                "--set:1:7: no entry 'n_layers' in groups; "
                "did you mean groups.0.n_layers or groups.1.n_layers?"
            ),
        ],
    ),
    "several": (
        ["d_modle=3", "n_layer=2", "foo"],
        [f"--set:1:7: KEY=VALUE is needed; {KEYS}"],
    ),
    "several-names": (
        ["d_modle=3", "vocab=2"],
        [
            "--set:1:7: no field is called 'd_modle'; did you mean d_model?",
            "--set:1:7: no field is called 'vocab'; did you mean vocab_size?",
        ],
    ),
}


@pytest.mark.sample(15, whole=True)
@pytest.mark.parametrize(("overrides", "answers"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistaken_override_is_answered(overrides, answers, refused):
    assert sorted(refused(TWO_GROUPS, *overrides)) == sorted(answers)


def test_mistakes_of_the_file_and_of_an_override_are_answered_together(tiny, refused):
    assert refused(tiny.replace("d_ff: 128", "d_ff: 0"), "groups.7.n_layers=1") == [
        "18:48: d_ff must be a whole number above 0, not 0",
        "--set:1:7: no entry '7' in groups; groups has the entry 0 alone",
    ]


TWO_TABLES = """\
kind: encoder_decoder
vocab_size: 100
d_model: 64
norm: rmsnorm
encoder:
  vocab_size: 50
  groups: [{n_layers: 1, layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4, causal: false},
      ffn: {kind: mlp, d_ff: 128}}}]
decoder:
  groups: [{n_layers: 1, layer: {kind: pre_norm, attention: {kind: mha, n_heads: 4},
      cross_attention: {kind: cross, n_heads: 4}, ffn: {kind: mlp, d_ff: 128}}}]
"""


def test_a_name_at_the_top_is_the_one_meant_where_others_differ():
    changed = load_text(TWO_TABLES, "f", ["vocab_size=200"]).model
    assert (changed.vocab_size, changed.encoder.vocab_size) == (200, 50)


def test_an_override_may_mend_what_contradicts():
    text = TWO_GROUPS.replace("n_heads: 4", "n_heads: 5")
    assert dict(settings(load_text(text, "f", ["n_heads=8"]).model))["groups.0.layer.attention.n_heads"] == 8


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("max_seq_len=1M", "max_seq_len", 1_000_000),
        ("max_seq_len=128Ki", "max_seq_len", 131_072),
        ("max_seq_len=1e5", "max_seq_len", 100_000),
        ("name=8B", "name", "8B"),
        ("series=1M", "series", "1M"),
    ],
)
def test_an_amount_is_a_number_but_in_a_text(tiny, text, field, value):
    assert getattr(load_text(tiny, "f", [text]).model, field) == value


@pytest.mark.parametrize("value", ["[1, 2]", "[]", "[{}]", "3"])
def test_a_field_below_what_another_override_makes_no_mapping_is_answered(tiny, value):
    with pytest.raises(ArchError):
        load_text(tiny, "f", [f"layer.attention={value}", "n_heads=1"])
