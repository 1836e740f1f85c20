"""`archcli memory` as people ask it: answers, what would fit, notes, and a line for each question in vain."""

import json
from xml.etree import ElementTree as ET

import pytest

from archcli import ArchError, count_memory
from table import every_row

PARAMS = 124_439_808
TOTALS = {
    *("peak_bytes", "moment", "path", "parts", "beyond_bytes", "beyond", "kept_bytes", "moments", "ranks"),
    *("fits", "verdict", "margin_bytes", "fit", "change"),
}
PARTS = ("weights", "gradients", "optimizer", "kept", "loss", "gathered", "temporaries", "cache")


def asked(cli, *args):
    done = cli("memory", *args, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_the_default_answer_is_short_and_begins_with_the_peak(cli):
    done = cli("memory", "gpt2", "--device", "h100-sxm")
    training, serving, settings, *_ = done.out.splitlines()
    # 124,439,808 weights of 2 bytes are 237 MiB
    peak = "2.48 GiB at the peak (loss), 237 MiB of weights"
    assert training == f"gpt2: Training fits into h100-sxm (79.1 GiB): {peak}"
    assert serving.startswith("Serving fits into h100-sxm (79.1 GiB): ")
    assert settings == "a training step, 1 x 1,024 tokens, bf16, adamw-mixed, on h100-sxm"
    assert len(done.out.splitlines()) < 30
    assert "Beyond the model: up to " in done.out


def test_the_names_of_json(cli):
    document = asked(cli, "gpt2", "-s", "64")
    totals = document["totals"]
    assert set(totals) == TOTALS
    assert tuple(totals["parts"]) == PARTS
    assert sum(totals["parts"].values()) == totals["peak_bytes"]
    assert set(document["rows"][0]) == {
        *("path", "kept_bytes", "shared_with", "recompute_flops", "freed_bytes_per_flop")
    }
    assert sum(row["kept_bytes"] for row in document["rows"]) == totals["kept_bytes"]
    assert totals["fits"] is None
    assert {"rank", "stage", "peak_bytes", "parts"} <= set(totals["ranks"][0])
    assert totals["ranks"][0]["peak_bytes"] == totals["peak_bytes"]
    assert totals["beyond_bytes"] == sum(part["bytes"] for part in totals["beyond"])


def test_the_moments_end_in_the_optimizers_step(cli):
    args = ("gpt2", "-s", "64", "--optimizer", "adamw")
    moments = {m["moment"]: m for m in asked(cli, *args)["totals"]["moments"]}
    assert list(moments) == ["forward", "loss", "backward", "optimizer step"]
    # weights, gradients, two states and the temporaries of a step for all tensors at once
    assert moments["optimizer step"]["peak_bytes"] == 5 * 2 * PARAMS


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("form", ["plain", "md", "csv", "json", "table"])
def test_every_format(cli, form):
    done = cli("memory", "gpt2", "-s", "64", "--alternatives", "--format", form)
    assert (done.code, bool(done.out)) == (0, True), done.err


def test_alternatives_are_a_table_each(cli):
    out = cli("memory", "gpt2", "-s", "64", "--alternatives", "--device", "l4").out
    for title in ("the highest point of each moment", "by --recompute", "by --optimizer", "by --loss"):
        assert title in out
    assert "by --attention" in out


@pytest.mark.long
@every_row(
    ("args", "told", "hint"),
    [
        (("bert-base-uncased", "--phase", "decode"), "an encoder has no cache", "--phase forward"),
        (("bert-base-uncased", "--loss", "fused"), "runs the model's head, and it has none", "--loss"),
        (("gpt2", "--recompute", "layers.*.fn"), "'layers.*.fn' matches no module", "layers.*.ffn"),
        (("gpt2", "--recompute", "layers.*.ffn,"), "'' matches no module", "layers.*.attention"),
        (("mamba-130m", "--recompute", "attention"), "no layer has softmax attention", "layer"),
        (("gpt2", "--loss", "chunked:0"), "no loss 'chunked:0'", "chunked:N"),
        (("gpt2", "-s", "8", "--loss", "chunked:9"), "cuts 8 tokens into more chunks", "chunked:8 at most"),
        (("gpt2", "--optimizer", "adamm"), "unknown optimizer 'adamm'", "adamw"),
        (("gpt2", "--optimizer", "sgd", "--gradients", "fp32"), "sgd updates weights in bf16", "adamw-mixed"),
        (("gpt2", "--dtype", "fp16", "--gradients", "bf16"), "--gradients bf16 of weights in fp16", "fp32"),
        (("gpt2", "--phase", "decode", "--gradients", "fp32"), "--gradients applies to training", "leave"),
        (("gpt2", "--dtype", "fp64"), "fp64 is no dtype to compute in", "bf16, fp16, fp32"),
        (
            ("gpt2", "--device", "l4", "--memory", "8GiB"),
            "both say what memory there is",
            "leave --device or --memory out",
        ),
        (("gpt2", "--device", "cuda"), "'cuda' is a kind of device", "h100-sxm"),
        (("gpt2", "--memory", "80"), "--memory 80 has no unit", "80GiB"),
        (("gpt2", "--fit", "batch"), "--fit batch needs a device", "--device h100-sxm"),
        (("gpt2", "--chunk", "3"), "--chunk cuts a prefill", "--phase prefill or serve"),
        (("gpt2", "--phase", "decode", "--chunk", "3"), "--chunk cuts a prefill", "leave --chunk out"),
        (("gpt2", "--phase", "serve", "--optimizer", "sgd"), "--optimizer applies to training", "leave"),
        (
            ("gpt2", "--phase", "serve", "--zero", "3", "--dp", "2"),
            "--zero applies to training",
            "tp, pp, ep and dp",
        ),
        (("gpt2", "--phase", "prefill", "--fit", "recompute", "--memory", "1GB"), "training only", "train"),
        (("gpt2", "--device", "8xl4", "--dp", "16"), "takes 16 devices, and there are 8", "16xl4"),
        (("gpt2", "--zero", "3"), "and there is one", "state dp"),
        (("gpt2", "--tp", "5"), "tp 5 does not divide n_heads 12", "2, 3, 4, 6 or 12 would do"),
        (("gpt2", "--pp", "13"), "pp 13 is more than 12 layers", "pp 12 at most"),
        (("gpt2", "--cp", "3"), "cp 3 does not divide 1,024 tokens", "would do"),
        (("gpt2", "--ep", "2", "--dp", "2"), "the model has none", "leave ep out"),
        (("gpt2", "--micro-batches", "3"), "micro_batches needs a pipeline", "state pp"),
        (("gpt2", "-b", "0"), "must be a whole number above 0", "archcli memory -h"),
    ],
)
def test_a_question_in_vain_says_what_would_do(cli, args, told, hint):
    done = cli("memory", *args)
    assert done.code == 2
    assert told in done.err
    assert hint in done.err
    assert "Traceback" not in done.err


def test_a_word_that_states_bits_alone_is_noted_as_the_format_that_is_counted(cli):
    for phase in ((), ("--phase", "train")):
        out = cli("memory", "gpt2", "--dtype", "int4", *phase).out
        assert out.splitlines()[1] == "a training step, 1 x 1,024 tokens, nf4, computed in bf16, adamw-mixed"
        assert [line for line in out.splitlines() if "is taken as" in line] == [
            "note: int4 is taken as nf4, the usual of transformers"
        ]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("gpt2", "-s", "4096"), "4,096 tokens are beyond max_seq_len 1,024"),
        (("gpt2", "--device", "8xl4", "--dp", "2"), "uses 2 of 8 devices; --dp 8 --zero 3 would use more"),
        (("gpt2", "--phase", "serve", "--device", "4xl4", "--tp", "2"), "2 of 4 devices; --tp 4 would use"),
        (("llama-3.1-8b", "--device", "8xa100-sxm-40gb"), "dp 8, zero 3, on 8 x a100-sxm-40gb"),
        (("gpt2", "--phase", "serve", "--device", "2xl4"), "tp 2, on 2 x l4"),
        (("bert-base-uncased",), "The model has no head"),
        (("gpt2", "--source-len", "9"), "--source-len has no effect"),
        (("gpt2", "--phase", "decode", "--engine", "none"), "until that is complete, both take memory"),
        (("gpt2", "--phase", "serve"), "the cache counts once"),
        (("gpt2", "--dp", "2"), "dp without zero is DDP"),
        (("gpt2", "--memory", "3GB"), "With --loss fused it would fit"),
        (("llama-3.1-8b", "--device", "8xa100-sxm-40gb", "--dp", "8"), "With --zero 3 it would fit"),
        (("gpt2", "--memory", "1MB"), "No one option would make it fit"),
    ],
)
def test_notes(cli, args, told):
    done = cli("memory", *args)
    assert done.code == 0, done.err
    assert told in done.out


def test_a_device_of_ones_own_with_windows_line_endings(cli, tmp_path):
    file = tmp_path / "mine.yaml"
    lines = ("name: mine", "vendor: me", "kind: gpu", "source: a guess", "certainty: C", "memory_gb: 2", "")
    file.write_bytes("\r\n".join(lines).encode())
    document = asked(cli, "gpt2", "--device", f"2x{file}")
    assert document["inputs"]["memory_bytes"] == 2 * 2**30
    assert document["inputs"]["n_devices"] == 2
    # 1.56 GiB at the peak, and half a GB beyond the model
    assert document["totals"]["fits"] is (1_670_135_496 + document["totals"]["beyond_bytes"] <= 2 * 2**30)


@pytest.mark.long
def test_the_picture_has_every_moment_part_and_device(cli, tmp_path):
    file = tmp_path / "memory.svg"
    assert cli("memory", "gpt2", "-s", "64", "--plot", file).code == 0
    drawing = ET.fromstring(file.read_text())  # noqa: S314
    texts = {"".join(node.itertext()) for node in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert {"forward", "loss", "backward", "optimizer step"} <= texts
    assert {"weights", "gradients", "optimizer states", "kept for backward", "temporaries"} <= texts
    assert {"h100-sxm, 79.1 GiB", "batch size", "1", "2"} <= texts
    tips = {node.text for node in drawing.iter("{http://www.w3.org/2000/svg}title")}
    # the bar of the weights, two bytes a parameter
    assert f"weights: {2 * PARAMS:,} bytes" in tips


def test_the_picture_has_the_device_that_was_asked_for(cli, tmp_path):
    file = tmp_path / "memory.html"
    assert cli("memory", "gpt2", "-s", "64", "--memory", "3GB", "--plot", file).code == 0
    assert ">3GB<" in file.read_text()
    assert "h100-sxm" not in file.read_text()
    # one sequence does not fit into 0.1 GB: the curve goes on, and is no line of two points
    assert cli("memory", "gpt2", "-s", "64", "--memory", "100MB", "--plot", file).code == 0
    for batch in (1, 2, 4, 8):
        assert f"<title>batch size {batch}: " in file.read_text()
    done = cli("memory", "gpt2", "--plot", tmp_path / "memory.txt")
    assert (done.code, "ends in none of .svg" in done.err) == (2, True)


def test_a_model_from_standard_input(cli, monkeypatch, tmp_path):
    import io

    shown = cli("show", "gpt2", "--format", "yaml").out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(shown.encode())))
    assert asked(cli, "-", "-s", "64")["totals"] == asked(cli, "gpt2", "-s", "64")["totals"]


def test_an_output_that_cannot_be_written(cli, tmp_path):
    done = cli("memory", "gpt2", "-o", tmp_path / "none" / "file.json")
    assert done.code == 2
    assert done.err.count("\n") <= 3


@pytest.mark.long
def test_in_python_as_on_the_command_line(cli):
    report = count_memory("gpt2", seq_len=64, device="l4", fit="batch")
    assert (
        report.to_dict()["totals"]
        == asked(cli, "gpt2", "-s", "64", "--device", "l4", "--fit", "batch")["totals"]
    )
    with pytest.raises(ArchError, match="matches no module"):
        count_memory("gpt2", recompute="nothing")
    assert len(count_memory("gpt2", seq_len=64, fit="devices").totals["fit"]["devices"]) > 20


@every_row(
    ("options", "told"),
    [
        ({"fit": "everything", "memory": "8GiB"}, "fit must be batch, context"),
        ({"plan": {"dpp": 2}}, "unknown degree 'dpp'"),
        ({"plan": {"dp": "two"}}, "dp must be a whole number above 0"),
        ({"plan": {"zero": 7}}, "zero must be"),
        ({"plan": 3}, "plan must be a dict"),
        ({"device": 3}, "device must be text"),
        ({"memory": 1.5}, "memory must be a whole number"),
        ({"seqlen": 5}, "unknown argument 'seqlen'"),
        ({"phase": "generate"}, "phase must be train"),
        ({"attention": "ring"}, "attention must be flash"),
        ({"optimizer": 3}, "optimizer must be text"),
    ],
)
def test_arguments_that_nobody_meant(options, told):
    with pytest.raises(ArchError, match=told):
        count_memory("gpt2", **options)


def test_values_of_numpy_are_sizes_too():
    import numpy as np

    asked = count_memory("gpt2", batch_size=np.int64(2), seq_len=64, attention="flash", phase="train")
    assert asked.totals["peak_bytes"] == count_memory("gpt2", batch_size=2, seq_len=64).totals["peak_bytes"]


@pytest.mark.long
@every_row(
    ("args", "runs"),
    [
        ((), "as torch 2.13 runs the model that archcli builds"),
        (("--phase", "serve", "--engine", "none"), "as torch 2.13 runs the model that archcli builds"),
        (("--phase", "serve"), "as vLLM runs the model: its cache, chunks and fused kernels"),
        (("--phase", "serve", "--engine", "llamacpp"), "as llama.cpp runs the model"),
    ],
)
def test_the_convention_says_what_runs_the_model(cli, args, runs):
    document = asked(cli, "gpt2", "-s", "64", *args)
    assert runs in document["convention"]
    assert document["convention"].count("runs the model") == 1


@every_row(
    "tokens, told",
    [
        (24_576, False),  # it fits
        # 25,559 MiB are what Metal offers of an M1 Max of 32 GB: ollama/ollama#17024
        (32_768, True),
        (65_536, False),  # beyond the Mac's memory
    ],
)
def test_a_mac_has_a_limit_that_its_owner_can_raise(cli, tokens, told):
    asked = (
        "qwen3-32b",
        "--dtype",
        "q4_k_m",
        "--device",
        "m1-max:32gb",
        "--phase",
        "serve",
        "-s",
        f"{tokens}",
    )
    done = cli("memory", *asked)
    assert ("iogpu.wired_limit_mb=27" in done.out) is told
