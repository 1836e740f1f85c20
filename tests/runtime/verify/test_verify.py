"""Witnesses agree with archcli about every family; a broken formula is told, with the rows at fault.

Nothing is passed over.
"""

import dataclasses

import pytest
import torch

from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.graph import State, StateKind
from archcli.graph.count_tape import CountTape
from archcli.modules import GLU, Group, PreNorm
from archcli.modules.models.layers import LayerIndex
from archcli.ops import Attend, Combine, ExtendCache, Linear, Multiply, Normalize, Route
from archcli.wings.running.runtime.model.build import build_model
from asking import ask, failures
from zoo import RMS, ZOO, D, gqa, model

torch.set_num_threads(1)
LLAMA = ZOO["llama"]


def raised(parts, **changes):
    """The parts with the first one's numbers raised by as much."""
    first, *rest = parts
    return (
        dataclasses.replace(first, **{name: getattr(first, name) + more for name, more in changes.items()}),
        *rest,
    )


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ZOO)
def test_all_agree(name):
    assert failures(ask(ZOO[name])) == []


@pytest.mark.long
def test_every_witness_is_heard():
    findings = ask(LLAMA).results
    assert [(finding.reference, finding.what) for finding in findings] == [
        ("torch's parameters", "total"),
        ("torch's parameters", "names and shapes"),
        ("torch's buffers", "names and shapes"),
        ("FlopCounterMode", "forward FLOPs"),
        ("FlopCounterMode", "train FLOPs"),
        ("torch's shapes", "inputs of each row, train"),
        ("torch's formulas", "FLOPs of each row, forward"),
        ("torch's formulas", "FLOPs of each row, backward"),
        ("FlopCounterMode", "prefill FLOPs"),
        ("torch's cache", "elements after prefill"),
        ("torch's shapes", "inputs of each row, prefill"),
        ("torch's formulas", "FLOPs of each row, prefill"),
        ("FlopCounterMode", "decode FLOPs"),
        ("torch's cache", "elements after decode"),
        ("torch's shapes", "inputs of each row, decode"),
        ("torch's formulas", "FLOPs of each row, decode"),
        ("fvcore ×2", "forward FLOPs"),
        ("fvcore ×2", "FLOPs of each module, forward"),
    ]
    assert all(finding.ours > 0 for finding in findings if finding.reference != "torch's buffers")


@pytest.mark.long
def test_what_cannot_be_counted_is_listed():
    verified = ask(ZOO["deepseek-absorbed"])
    notes = verified.notes
    attention = 2 * 2 * 5 * 3 * (5 * 7 + 7 * 3) + 2 * 2 * 5 * 5 * 3 * (
        7 + 4 + 7
    )  # both absorbed matrices; scores and mix
    assert notes[0].startswith("torch has no formula for ")
    assert notes[0].endswith(" more; none is a matrix product. --verbose lists them.")
    assert notes[1].startswith("fvcore has no formula for ")
    assert verified.uncounted["torch"]["_softmax"] > 0
    assert verified.uncounted["fvcore"]["aten::rms_norm"] > 0
    assert notes[2].startswith(
        f"fvcore cannot count aten::einsum ×2 exactly: {attention:,} FLOPs of layers.0.attention.q_absorb, "
    )
    assert notes[3] == "fvcore saw no call of layers.0.attention.kv_b_proj: their weights are used elsewhere."


CROSSING = {
    "vocab_size": 24,
    "d_model": 16,
    "norm": "rmsnorm",
    "groups": [
        {
            "n_layers": 5,
            "pattern": [
                {
                    "kind": "pre_norm",
                    "attention": {"kind": "mha", "n_heads": 2},
                    "ffn": {"kind": "glu", "d_ff": 20},
                },
                {
                    "kind": "gated_pre_norm",
                    "cross_attention": {"n_heads": 4, "n_kv_heads": 2, "qk_norm": {"per": "head"}},
                    "ffn": {"kind": "glu", "d_ff": 12},
                },
            ],
        }
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("source", [{}, {"source_len": 7}], ids=["text", "image"])
def test_layers_that_read_images_run_where_there_are_some(source):
    verified = ask(given({**CROSSING, **source}).model)
    assert failures(verified) == []
    carried = [finding for finding in verified.results if finding.what.startswith("elements of the source")]
    # two layers, two sequences, keys and values of 2 heads of 4
    assert [finding.ours for finding in carried] == ([2 * 2 * 2 * 7 * 2 * 4] if source else [])
    assert not any("saw no call" in note for note in verified.notes)


@pytest.mark.long
def test_a_pooling_that_nothing_reads_is_left_out_of_fvcore_s_comparison():
    patches = {"kind": "patches", "image_size": [8, 8], "patch_size": [4, 4], "class_token": False}
    unused = {"kind": "attention", "n_heads": 2}
    layer = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": 2, "causal": False},
        "ffn": {"kind": "mlp", "d_ff": 20},
    }
    spec = {
        "kind": "media_encoder",
        "d_model": 16,
        "norm": "layernorm",
        "front_end": patches,
        "pooling": {"kind": "beside", "pooling": "mean", "unused": unused},
        "n_labels": 3,
        "groups": [{"n_layers": 1, "layer": layer}],
    }
    verified = ask(given(spec).model)
    assert failures(verified) == []
    assert any(
        "drops what no output is made of" in note and "pooling.unused" in note for note in verified.notes
    )


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("op", "method", "broken", "told"),
    [
        (
            Linear,
            "parts",
            lambda old: lambda op, x, *rest: raised(old(op, x, *rest), flops=2 if op.name == "k_proj" else 0),
            {
                ("FlopCounterMode", "forward FLOPs", ""),
                ("FlopCounterMode", "train FLOPs", ""),
                ("FlopCounterMode", "prefill FLOPs", ""),
                ("FlopCounterMode", "decode FLOPs", ""),
                ("fvcore ×2", "forward FLOPs", ""),
                *(
                    ("torch's formulas", f"FLOPs of each row, {phase}", "layers.0.attention.k_proj ×2")
                    for phase in ("forward", "prefill", "decode")
                ),
                ("fvcore ×2", "FLOPs of each module, forward", "layers.0.attention.k_proj ×2"),
            },
        ),
        (
            Linear,
            "parts",
            lambda old: (
                lambda op, x, *rest: tuple(
                    dataclasses.replace(part, backward=part.backward[:1]) for part in old(op, x, *rest)
                )
            ),
            {
                ("FlopCounterMode", "train FLOPs", ""),
                ("torch's formulas", "FLOPs of each row, backward", "layers.0.ffn.up_proj ×2"),
            },
        ),
        (
            Attend,
            "parts",
            lambda old: lambda op, *xs: raised(old(op, *xs), executed=7),
            {("torch's formulas", "FLOPs of each row, decode", "layers.0.attention.attend ×2")},
        ),
        (
            Normalize,
            "weights",
            lambda old: lambda op, x: {"weight": (x[-1] + 1,)},
            {
                ("torch's parameters", "total", ""),
                ("torch's parameters", "names and shapes", "layers.0.ffn_norm.weight ×2"),
            },
        ),
        (
            Linear,
            "weights",
            lambda old: lambda op, x, *rest: {"kernel": (op.out, x[-1])},
            {("torch's parameters", "names and shapes", "layers.0.attention.q_proj.kernel ×2")},
        ),
        (
            ExtendCache,
            "states",
            lambda old: lambda op, *xs: (*old(op, *xs), State(1, StateKind.TOKENS, 1)),
            {("torch's cache", "elements after prefill", ""), ("torch's cache", "elements after decode", "")},
        ),
        (
            Linear,
            "shape",
            lambda old: lambda op, x, *rest: (*x[:-1], op.out + (op.name == "o_proj")),
            {("torch's shapes", "shape of Linear", "layers.0.attention.o_proj")},
        ),
        (
            CountTape,
            "occurrences",
            lambda old: lambda tape, n_layers, period: ((i, n_layers) for i in range(period)),
            {("torch's parameters", "total", "")},
        ),
    ],
    ids=["flops", "backward", "executed", "weight-shape", "weight-name", "cached", "shape", "times"],
)
def test_a_broken_formula_is_told_with_its_rows(op, method, broken, told, monkeypatch):
    spec = ZOO["gemma2"] if op is CountTape else LLAMA
    monkeypatch.setattr(op, method, broken(getattr(op, method)))
    assert told <= set(failures(ask(spec)))


@pytest.mark.long
def test_rows_that_are_right_are_not_told(monkeypatch):
    old = Linear.parts
    monkeypatch.setattr(
        Linear,
        "parts",
        lambda op, x, *rest: raised(old(op, x, *rest), flops=2 if op.name == "down_proj" else 0),
    )
    assert {where for _, _, where in failures(ask(LLAMA))} == {"", "layers.0.ffn.down_proj ×2"}


@pytest.mark.long
def test_a_contraction_no_witness_can_count_is_an_error(monkeypatch):
    def run(op, torch, weights, a, b):
        return a * b + torch.mv(a.flatten(0, -2), a.new_ones(a.shape[-1])).sum()

    monkeypatch.setattr(Multiply, "run", run)
    assert ("torch's formulas", "no formula for mv", "layers.0.ffn.gated") in failures(ask(LLAMA))


def test_a_run_that_fails_is_told_with_its_row(monkeypatch):
    def run(op, torch, weights, y, gates, order):
        raise RuntimeError("no such kernel\nsecond line")

    monkeypatch.setattr(Combine, "run", run)
    (finding,) = ask(ZOO["mixtral"]).results
    assert (finding.ok, finding.theirs, finding.where) == (False, "no such kernel", "layers.0.ffn.combine")


@pytest.mark.long
def test_a_run_that_fails_later_is_told_with_its_row(monkeypatch):
    def cached(op, torch, weights, new, past=None):
        if past is not None:
            raise RuntimeError("out of order")
        return new, new

    monkeypatch.setattr(ExtendCache, "run", cached)
    (finding,) = ask(LLAMA).results
    assert (finding.ok, finding.theirs, finding.where) == (
        False,
        "out of order",
        "layers.0.attention.k_cache",
    )


def test_buffers_are_compared(monkeypatch):
    monkeypatch.setattr(Route, "buffers", lambda op, logits: {})
    with pytest.raises(KeyError, match="correction_bias"):
        ask(ZOO["deepseek"])


def test_layers_stand_for_each_other():
    layer = PreNorm(attention=gqa(), ffn=GLU(d_ff=4), norm=RMS)
    spec = model(layer).replace(
        groups=(Group(n_layers=1, layer=layer), Group(n_layers=5, pattern=(layer, layer)))
    )
    layers = LayerIndex(spec)
    assert layers.built_paths("layers.0.ffn") == ["layers.0.ffn"]
    assert layers.built_paths("layers.1.ffn") == ["layers.1.ffn", "layers.3.ffn", "layers.5.ffn"]
    assert layers.built_paths("layers.2") == ["layers.2", "layers.4"]
    assert layers.built_paths("lm_head") == ["lm_head"]
    assert [layers.counted_path(f"layers.{i}.x") for i in range(7)] == [
        f"layers.{i}.x" for i in (0, 1, 2, 1, 2, 1, 6)
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"n_layers": 10**9},
            (
                "1,000,000,000 layers are too many to build; at most 2,000: --set n_layers=… to verify a "
                "shorter stack"
            ),
        ),
        ({"d_ff": 10**18}, "layers.0.ffn.gate_proj has a tensor of 16,000,000,000,000,000,000 elements"),
    ],
)
def test_the_impossible_is_refused_at_once(changes, message):
    layer = PreNorm(attention=gqa(), ffn=GLU(d_ff=changes.get("d_ff", 4)), norm=RMS)
    spec = model(layer).replace(groups=(Group(n_layers=changes.get("n_layers", 1), layer=layer),))
    with pytest.raises(ArchError) as caught:
        ask(spec)
    assert str(caught.value).startswith(message)
    assert spec.d_model == D


def test_building_what_torch_refuses_names_the_row(monkeypatch):
    monkeypatch.setattr(Linear, "shape", lambda op, x, *rest: (*x[:-1], op.out + 1))
    with pytest.raises(
        ArchError,
        match=(
            r"^layers\.0\.attention\.q_proj: shape of Linear: archcli says \(1, 2, 25\), torch says \(1, "
            r"2, 24\)$"
        ),
    ):
        build_model(LLAMA)
