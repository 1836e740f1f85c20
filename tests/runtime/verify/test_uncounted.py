"""Witnesses of encoders, encoder-decoders and base models.

All agree, what is made of a source is held apart, mistakes name their rows.
"""

import dataclasses

import pytest
import torch
from torch import nn

from archcli.errors import ArchError
from archcli.graph import StateKind
from archcli.measure.passes import forward_pass
from archcli.modules import CrossAttention
from archcli.modules.models.layers import LayerIndex
from archcli.ops import ExtendCache, Linear, Scale
from archcli.wings.running.runtime.model.build import build_model, example_inputs
from archcli.wings.running.runtime.verify import by_fvcore
from archcli.wings.running.runtime.verify.by_torch import Given
from asking import ask, failures
from sources import ENCODERS, OTHERS, PAIRS, SOURCE, D

torch.set_num_threads(1)
PARAMETERS = [
    ("torch's parameters", "total"),
    ("torch's parameters", "names and shapes"),
    ("torch's buffers", "names and shapes"),
]
TRAINING = [
    ("FlopCounterMode", "forward FLOPs"),
    ("FlopCounterMode", "train FLOPs"),
    ("torch's shapes", "inputs of each row, train"),
    ("torch's formulas", "FLOPs of each row, forward"),
    ("torch's formulas", "FLOPs of each row, backward"),
]
FVCORE = [("fvcore ×2", "forward FLOPs"), ("fvcore ×2", "FLOPs of each module, forward")]


def step(phase, *more):
    return [
        ("FlopCounterMode", f"{phase} FLOPs"),
        ("torch's cache", f"elements after {phase}"),
        *(("torch's cache", what) for what in more),
        ("torch's shapes", f"inputs of each row, {phase}"),
        ("torch's formulas", f"FLOPs of each row, {phase}"),
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("source_len", [3, SOURCE])
@pytest.mark.parametrize("name", OTHERS)
def test_all_agree(name, source_len):
    assert failures(ask(OTHERS[name], source_len=source_len)) == []


def references(verdict):
    return [(finding.reference, finding.what) for finding in verdict.results]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", PAIRS)
def test_an_encoder_decoder_is_asked_about_every_phase(name):
    verdict = ask(PAIRS[name])
    assert references(verdict) == [
        *PARAMETERS,
        *TRAINING,
        *step("prefill"),
        *step("decode", "elements of the source, carried over"),
        *FVCORE,
    ]
    assert all(finding.ours > 0 for finding in verdict.results if finding.reference != "torch's buffers")


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_is_asked_about_forward_and_training_alone(name):
    verdict = ask(ENCODERS[name])
    assert references(verdict) == [*PARAMETERS, *TRAINING, *FVCORE]
    assert verdict.notes[-1] == "An encoder caches nothing: there is no prefill and no decoding to verify."


def found(verdict, what):
    (one,) = [finding for finding in verdict.results if finding.what == what]
    return one.ours, one.theirs


@pytest.mark.long
def test_own_and_source_elements_are_those_of_the_architecture():
    verdict = ask(PAIRS["t5"], batch_size=2, seq_len=5, source_len=7)
    own, source = (
        2 * 5 * 3 * 2 * 4 * 6,
        2 * 7 * 3 * 2 * 4 * 6,
    )  # B tokens layers, keys and values of 4 heads of 6
    assert found(verdict, "elements after prefill") == (own + source,) * 2
    assert found(verdict, "elements after decode") == (own * 6 // 5 + source,) * 2
    assert found(verdict, "elements of the source, carried over") == (source,) * 2


@pytest.mark.long
def test_a_source_that_is_not_counted_is_told(monkeypatch):
    old = ExtendCache.states
    monkeypatch.setattr(ExtendCache, "states", lambda op, *xs: () if op.cross else old(op, *xs))
    told = ["elements after prefill", "elements after decode", "elements of the source, carried over"]
    assert [what for _, what, _ in failures(ask(PAIRS["whisper"]))] == told


@pytest.mark.long
def test_a_source_counted_as_the_tokens_own_is_told(monkeypatch):
    monkeypatch.setattr(ExtendCache, "_kind", StateKind.TOKENS)
    assert failures(ask(PAIRS["t5"])) == [
        ("torch's cache", "elements after decode", ""),  # held from before, and in no row of the step
        ("torch's cache", "elements of the source, carried over", ""),
    ]


@pytest.mark.long
def test_a_source_whose_keys_are_made_anew_at_every_step_is_told(monkeypatch):
    old = CrossAttention.forward

    def forward(attention, x, context=None):
        y, kept = old(attention, x, context)
        return y, kept and tuple(Scale("again", 1.0)(tensor) for tensor in kept)

    monkeypatch.setattr(CrossAttention, "forward", forward)
    assert failures(ask(PAIRS["t5"])) == [("torch's cache", "elements of the source, carried over", "")]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("broken", "where"),
    [
        ("up_proj", {"encoder.layers.0.ffn.up_proj ×2", "decoder.layers.0.ffn.up_proj ×3"}),
        ("lm_head", {"lm_head"}),
    ],
)
def test_a_broken_formula_is_told_with_the_rows_of_each_stack(broken, where, monkeypatch):
    old = Linear.parts

    def parts(op, x, *rest):
        first, *others = old(op, x, *rest)
        return (dataclasses.replace(first, flops=first.flops + 2 * (op.name == broken)), *others)

    monkeypatch.setattr(Linear, "parts", parts)
    assert {place for _, _, place in failures(ask(PAIRS["t5"]))} == where | {""}


def test_layers_of_either_stack_stand_for_each_other():
    layers = LayerIndex(PAIRS["modern"])
    assert layers.built_paths("encoder.layers.1.ffn") == ["encoder.layers.1.ffn"]
    assert layers.built_paths("decoder.layers.0.ffn.up_proj") == [
        f"decoder.layers.{i}.ffn.up_proj" for i in range(3)
    ]
    assert layers.built_paths("layers.0.ffn") == ["layers.0.ffn"]
    assert layers.counted_path("decoder.layers.2.ffn") == "decoder.layers.0.ffn"
    assert layers.counted_path("encoder.layers.1.ffn") == "encoder.layers.1.ffn"
    assert [layers.counted_path(path) for path in ("encoder.layers.2.x", "layers.1.x", "lm_head")] == [
        "encoder.layers.2.x",
        "layers.1.x",
        "lm_head",
    ]


@pytest.mark.long
def test_what_fvcore_cannot_trace_is_left_out_and_said():
    flops = (
        2 * 2 * D * 2 * SOURCE * 6 * 3 + 2 * 2 * D * SOURCE * D * 3
    )  # 6 channels at 2 S frames, then D channels at S
    assert ask(PAIRS["whisper"]).notes[2] == (
        f"fvcore cannot trace a convolution on meta: {flops:,} FLOPs of encoder.front_end.conv1, "
        "encoder.front_end.conv2 "
        "are left out of its comparison."
    )


@pytest.mark.long
def test_what_stood_in_for_a_convolution_is_gone_afterwards():
    spec = PAIRS["whisper"]
    model = build_model(spec, device="meta", attention="eager")
    with torch.device("meta"):
        inputs = Given(tuple(example_inputs(spec, 1, 4)))
    by_fvcore.verify_fvcore(model, forward_pass(spec, 1, 4).rows, LayerIndex(spec), inputs)
    convolutions = [leaf for leaf in model.modules() if isinstance(leaf, nn.Conv1d)]
    assert len(convolutions) == 2
    assert not [leaf for leaf in convolutions if "forward" in vars(leaf)]


@pytest.mark.long
def test_a_model_fvcore_cannot_trace_at_all_is_said(monkeypatch):
    def analysis(model, inputs):
        raise RuntimeError("no such operation on meta\nsecond line")

    monkeypatch.setattr(by_fvcore, "_analysis", analysis)
    verdict = ask(PAIRS["t5"])
    assert verdict.ok
    assert verdict.notes[1:] == (
        "fvcore was not asked: it cannot trace this model on meta (no such operation on meta).",
    )
    assert "fvcore ×2" not in {finding.reference for finding in verdict.results}


def test_layers_of_both_stacks_are_too_many_to_build():
    t5 = PAIRS["t5"]
    many = [half.groups[0].replace(n_layers=1001) for half in (t5.encoder, t5.decoder)]
    halves = {
        name: half.replace(groups=(group,))
        for name, half, group in zip(("encoder", "decoder"), (t5.encoder, t5.decoder), many, strict=True)
    }
    with pytest.raises(ArchError, match="2,002 layers are too many to build"):
        ask(t5.replace(**halves))
