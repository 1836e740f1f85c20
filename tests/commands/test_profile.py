"""`archcli profile` of encoders and encoder-decoders.

Their phases, the length of a source, and what is refused.
"""

import json
from dataclasses import replace

import pytest

from archcli.wings.running.recording.recording import GpuPasses
from archcli.wings.running.runtime.profile import record as profile

BERT = """
kind: encoder
vocab_size: 61
d_model: 16
max_seq_len: 20
norm: layernorm
final_norm: false
pooler: true
embedding: {tied: true, position: learned, token_types: 2, norm: layernorm}
head: {}
groups:
  - n_layers: 2
    layer: {kind: post_norm, attention: {kind: mha, n_heads: 2, causal: false}, ffn: {kind: mlp, d_ff: 24}}
"""
WHISPER = """
kind: encoder_decoder
vocab_size: 61
d_model: 16
max_seq_len: 20
norm: layernorm
embedding: {tied: true, position: {kind: learned, offset: 2}}
encoder:
  position: {kind: learned, max_seq_len: 12}
  front_end: {in_channels: 4, d_model: 16}
  groups:
    - n_layers: 2
      layer: {kind: pre_norm, attention: {kind: mha, n_heads: 2, causal: false}, ffn: {kind: mlp, d_ff: 24}}
decoder:
  groups:
    - n_layers: 3
      layer:
        kind: pre_norm
        attention: {kind: mha, n_heads: 2}
        cross_attention: {n_heads: 2}
        ffn: {kind: mlp, d_ff: 24}
"""


def profiled(cli, tmp_path, text, *args):
    path = tmp_path / "model.yaml"
    path.write_text(text)
    done = cli("profile", path, "--pairs", 1, "--threads", 1, "--no-ceilings", "--json", *args)
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["totals"]["operations_differing"] == []
    return found


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("phase", ["forward", "train"])
def test_an_encoder_is_profiled_forward_and_in_training(cli, tmp_path, phase):
    found = profiled(cli, tmp_path, BERT, "-s", 8, "--phase", phase)
    assert found["inputs"]["source_len"] is None
    assert {"layers.*.attention.attend", "pooler", "lm_head", "embedding.token_types"} <= {
        row["path"] for row in found["rows"]
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("phase", "args", "source_len"),
    [("train", ["--source-len", 9], 9), ("prefill", [], 8), ("decode", ["--past", 7], 7)],
)
def test_an_encoder_decoder_is_profiled_in_every_phase(cli, tmp_path, phase, args, source_len):
    found = profiled(cli, tmp_path, WHISPER, "-s", 8, "--phase", phase, *args)
    assert found["inputs"]["source_len"] == source_len
    paths = {row["path"] for row in found["rows"]}
    assert {
        "decoder.layers.*.attention.attend",
        "decoder.layers.*.cross_attention.attend",
        "lm_head",
    } <= paths
    assert ("encoder.layers.*.ffn.up_proj" in paths) is (phase != "decode")
    assert not [path for path in paths if "layers.0" in path]


@pytest.mark.long
def test_a_source_length_without_effect_is_noted(cli, tmp_path):
    assert profiled(cli, tmp_path, BERT, "-s", 8, "--source-len", 9)["notes"][0] == (
        "--source-len has no effect: this model has no encoder."
    )
    assert profiled(cli, tmp_path, "source_len: 11\n" + WHISPER, "-s", 8, "--source-len", 9)["notes"][0] == (
        "--source-len has no effect: this model's encoder always has 11 positions."
    )


NOT_IN_THE_TABLE = {
    "an encoder decodes nothing": (
        BERT,
        ["--phase", "decode"],
        "an encoder has no cache to fill and generates nothing",
    ),
    "nor is it prefilled": (
        BERT,
        ["--phase", "prefill"],
        "an encoder has no cache to fill and generates nothing",
    ),
    "a prompt too long": (
        WHISPER,
        ["-s", "21"],
        "embedding.positions has 20 positions, and 21 tokens are asked for",
    ),
    "too many in the cache": (
        WHISPER,
        ["--phase", "decode", "--past", "20"],
        "embedding.positions has 20 positions, and 21 tokens",
    ),
    "a source too long": (
        WHISPER,
        ["-s", "5", "--source-len", "13"],
        "encoder.position_embedding has 12 positions, and 13 tokens are asked for",
    ),
}


@pytest.mark.parametrize(("text", "args", "words"), NOT_IN_THE_TABLE.values(), ids=NOT_IN_THE_TABLE)
def test_what_an_encoder_cannot_do_is_refused(cli, tmp_path, text, args, words):
    path = tmp_path / "model.yaml"
    path.write_text(text)
    done = cli("profile", path, *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.long
def test_the_last_position_of_a_shifted_table_runs(cli, tmp_path):
    assert (
        profiled(cli, tmp_path, WHISPER, "--phase", "decode", "--past", 19, "--source-len", 12)["inputs"][
            "past"
        ]
        == 19
    )


LOSSES = {"none": ((), 0), "a kernel": (("aten::mm: cudaLaunchKernel without a kernel",), 1)}


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(("lost", "code"), LOSSES.values(), ids=LOSSES)
def test_a_trace_that_lacks_kernels_is_a_failure(cli, tmp_path, monkeypatch, lost, code):
    path = tmp_path / "model.yaml"
    path.write_text(BERT)
    measured = profile.record
    monkeypatch.setattr(
        profile,
        "record",
        lambda *args, **options: replace(measured(*args, **options), gpu=GpuPasses(lost=lost)),
    )
    done = cli("profile", path, "-s", 4, "--pairs", 1, "--threads", 1, "--no-ceilings", "--json")
    assert (done.code, done.err) == (code, "")
    assert json.loads(done.out)["totals"]["launches_lost"] == list(lost)
