"""`archcli profile --vs`: what a variant may be, the comparisons one asks for, and what is refused."""

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from archcli.wings.running.api.profiling.vs_changes import split
from archcli.wings.running.profile.reports.versus import versus

pytestmark = pytest.mark.torch


def profiled(cli, path, *args):
    done = cli("profile", path, "-s", 8, "--pairs", 1, "--threads", 1, "--json", *args)
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert all(one["operations_differing"] == [] for one in found["totals"]["variants"])
    return found


def settings(found, letter="B"):
    """What the variant changes: {setting: (from, to)}."""
    one = next(one for one in found["totals"]["variants"] if one["variant"] == letter)
    return {change["setting"]: (change["from"], change["to"]) for change in one["settings"]}


@pytest.mark.long
def test_a_comparison_is_not_written_into(cli, llama, monkeypatch):
    def frozen(*args):
        report = versus(*args)
        return replace(report, totals=MappingProxyType(report.totals))

    monkeypatch.setattr("archcli.wings.running.api.profiling.versus.versus", frozen)
    found = profiled(cli, llama, "--vs", "d_ff=40")
    # weights and caches of both variants are in memory at once
    assert (
        found["totals"]["memory"]["weights_bytes"]
        == sum(one["params"] for one in found["totals"]["variants"]) * 4
    )


def operators(found, letter="B"):
    one = next(one for one in found["totals"]["variants"] if one["variant"] == letter)
    return {operator["path"]: operator for operator in one["operators"]}


@pytest.mark.long
def test_one_command_compares_several(cli, llama):
    found = profiled(
        cli,
        llama,
        "--vs",
        "norm.kind=layernorm",
        "--vs",
        "ffn.kind=mlp,ffn.activation=gelu",
        "--vs",
        "layer.kind=parallel",
    )
    a, b, c, d = found["totals"]["variants"]
    assert [one["changed"] for one in (a, b, c, d)] == [
        "as it is",
        "norm.kind=layernorm",
        "ffn.kind=mlp,ffn.activation=gelu",
        "layer.kind=parallel",
    ]
    assert found["inputs"]["vs"] == [b["changed"], c["changed"], d["changed"]]
    # 2 layers of two norms and the final one gain a bias of 32 each; three matrices of 32 x 48 become two;
    # two norms of 32 go
    assert b["params"] - a["params"] == 5 * 32
    assert a["params"] - c["params"] == 2 * 32 * 48
    assert a["params"] - d["params"] == 2 * 32
    assert {row["variant"] for row in found["rows"]} == {"B", "C", "D"}
    assert operators(found, "C")["layers.*.ffn.gate_proj"]["seconds"] == 0.0
    assert operators(found, "D")["layers.*.ffn_norm"]["flops"] == 0
    assert "C: groups.0.layer.ffn.kind glu -> mlp" in found["notes"]
    assert any(note.startswith("C: ") and "d_ff=72 would give as many" in note for note in found["notes"])


@pytest.mark.long
def test_every_norm_changes_and_is_timed_on_both_sides(cli, llama):
    found = profiled(cli, llama, "--vs", "norm.kind=layernorm")
    for path in ("layers.*.attention_norm", "layers.*.ffn_norm", "final_norm"):
        one = operators(found)[path]
        assert one["base_seconds"] > 0
        assert one["seconds"] > 0
        # 7 FLOPs an element against 4
        assert one["flops"] > one["base_flops"]
    assert settings(found) == {"norm.kind": ("rmsnorm", "layernorm")}


@pytest.mark.long
def test_heads_of_keys_at_decode(cli, llama):
    found = profiled(
        cli, llama, "--phase", "decode", "--past", "9", "--vs", "attention.kind=mha", "--vs", "n_kv_heads=4"
    )
    assert settings(found)["groups.0.layer.attention.kind"] == ("gqa", "mha")
    assert settings(found, "C") == {"groups.0.layer.attention.n_kv_heads": ("2", "4")}
    b, c = found["totals"]["variants"][1:]
    assert (b["params"], b["matmul_flops"], b["bytes"]) == (c["params"], c["matmul_flops"], c["bytes"])
    assert "B: mha has no n_kv_heads: what the file says of it was left out." in found["notes"]


@pytest.mark.long
def test_ways_of_running(cli, llama):
    found = profiled(cli, llama, "--vs", "attention=eager", "--vs", "dtype=bf16; norm.kind=layernorm")
    assert settings(found) == {"attention": ("sdpa", "eager")}
    assert settings(found, "C") == {"norm.kind": ("rmsnorm", "layernorm"), "dtype": ("fp32", "bf16")}
    a, b, c = found["totals"]["variants"]
    assert (b["params"], b["matmul_flops"]) == (a["params"], a["matmul_flops"])
    assert (a["dtype"], c["dtype"]) == ("fp32", "bf16")
    classes = {row["class"]: row for row in found["rows"] if row["variant"] == "B"}
    assert (classes["fused_attention"]["seconds"], classes["fused_attention"]["ratio"]) == (0.0, None)
    assert any("compare the operators, not the classes" in note for note in found["notes"])


@pytest.mark.long
def test_set_is_what_all_begin_with(cli, llama):
    found = profiled(cli, llama, "--set", "d_ff=96", "--vs", "norm.kind=layernorm")
    base, other = found["totals"]["variants"]
    assert other["params"] - base["params"] == 5 * 32
    assert settings(found) == {"norm.kind": ("rmsnorm", "layernorm")}


SPLITS = {
    "one": ("a=1", ["a=1"]),
    "commas": ("a=1,b=2", ["a=1", "b=2"]),
    "semicolons and blanks": ("a=1; b=2", ["a=1", "b=2"]),
    "within a mapping": ("a={kind: x, b: [1, 2]},c=3", ["a={kind: x, b: [1, 2]}", "c=3"]),
    "within quotes": ("name='a,b',c=\"]\",d=1", ["name='a,b'", 'c="]"', "d=1"]),
}


@pytest.mark.parametrize(("text", "items"), SPLITS.values(), ids=SPLITS)
def test_changes_are_told_apart(text, items):
    assert split(text) == items


REFUSED = {
    "an unknown field": (["--vs", "ffn.dff=3"], "--vs: error: no path ends in 'ffn.dff'"),
    "an unknown way": (["--vs", "dtype=int4"], "dtype 'int4' is none of fp32, bf16, fp16"),
    "nothing": (["--vs", "a=1,"], "a change is missing"),
    "no difference": (["--vs", "norm.kind=rmsnorm"], "this variant is the model as it is"),
    "what the new kind needs": (["--vs", "attention.kind=mla"], "missing key kv_lora_rank"),
    "too many": (["--vs", "d_ff=64"] * 26, "26 variants are too many"),
    "a picture": (["--vs", "d_ff=64", "--plot", "x.svg"], "leave --plot and --trace out"),
    "beyond memory": (["--vs", "d_ff=400000000000"], "of weights"),
}


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize(("args", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_compared_is_refused(cli, llama, args, words):
    done = cli("profile", llama, *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


def test_all_mistakes_are_told_at_once(cli, llama):
    done = cli("profile", llama, "--vs", "ffn.dff=3", "--vs", "attention=fast")
    assert "no path ends in 'ffn.dff'" in done.err
    assert "attention 'fast' is none of sdpa, eager" in done.err
