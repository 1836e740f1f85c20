"""A form of weights whose bytes are not known: which one it is, that --dtype states one, and no verdict."""

import json

import pytest

import archcli
from stored_layouts import LLAMA
from table import every_row

STATED = {"quant_method": "vptq", "version": "2"}
FORM = "weights are stored as vptq, version 2, whose bytes are not known; --dtype states a form"
QUESTIONS = {
    "fit": ("fit", "{}", "rtx-5090"),
    "fit-offload": ("fit", "{}", "rtx-5090", "--offload", "auto", "--ram", "64GiB"),
    "fit-engine": ("fit", "{}", "rtx-5090", "--engine", "llamacpp", "-c", "1Ki"),
    "memory-train": ("memory", "{}"),
    "memory-serve": ("memory", "{}", "--phase", "serve", "--device", "2xrtx-5090"),
    "memory-fit": ("memory", "{}", "--phase", "serve", "--device", "rtx-5090", "--fit", "batch"),
    "predict": ("predict", "{}", "--device", "rtx-5090"),
    "predict-plan": ("predict", "{}", "--device", "8xh100-sxm", "--fit", "time"),
}


@pytest.fixture
def file(tmp_path):
    """A small Llama in a form of unknown bytes."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps({**LLAMA, "quantization_config": STATED}))
    return path


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_verdict_is_given(cli, file, question):
    words = [word.format(file) for word in QUESTIONS[question]]
    done = cli(*words)
    assert (done.code, done.err) == (0, "")
    first, *_ = done.out.splitlines()
    assert first.startswith(f"small: no verdict: {FORM}")
    totals = json.loads(cli(*words, "--json").out)["totals"]
    assert (totals["fits"], totals["verdict"], totals["form"]) == (None, "unknown", "vptq, version 2")
    assert totals["peak_bytes" if words[0] != "predict" else "needed_bytes"] is None


@pytest.mark.long
@every_row("question", ["fit", "predict"])
def test_a_stated_dtype_is_answered_as_a_plain_file_is(cli, file, question):
    def totals(dtype):
        words = [word.format(file) for word in QUESTIONS[question]]
        return json.loads(cli(*words, "--dtype", dtype, "--json").out)["totals"]

    unknown = totals("q4_0")
    file.write_text(json.dumps(LLAMA))
    assert totals("q4_0") == unknown


def test_params_counts_and_has_no_bytes(cli, file):
    lines = cli("params", file).out.splitlines()
    assert any(line.split() == ["bytes", "as", "stored", "not", "known"] for line in lines)
    totals = json.loads(cli("params", file, "--json").out)["totals"]
    assert totals["params"] == archcli.count_params(LLAMA).totals["params"]
    assert [totals[name] for name in ("bytes", "published_bytes", "bits_per_weight")] == [None] * 3
    assert {*totals["bytes_by_group"].values()} == {None}
    stated = json.loads(cli("params", file, "--dtype", "fp32", "--json").out)["totals"]
    assert stated["bytes"] == 4 * totals["params"]


def test_a_device_that_is_not_known_is_refused_all_the_same(cli, file):
    assert cli("fit", file, "rtx-9999").code == 2


def test_what_fits_beside_weights_of_unknown_bytes_is_not_said(cli, file):
    done = cli("kvcache", file, "--memory", "1GiB")
    assert "what fits beside the weights is not known" in done.out
    fits = json.loads(cli("kvcache", file, "--memory", "1GiB", "--json").out)["totals"]["fits"]
    assert {*fits} == {"memory_bytes", "weights_bytes", "cache_alone"}
    assert fits["weights_bytes"] is None


@pytest.mark.long
def test_other_answers_name_it_or_leave_bytes_out(cli, file, tmp_path):
    compared = json.loads(cli("compare", file, "gpt2", "--json").out)
    assert next(row for row in compared["rows"] if row.get("key") == "bytes")["value_1"] is None
    assert cli("report", file, "-o", tmp_path / "page.html").code == 0
    assert "vptq, version 2" in cli("show", file, "--format", "yaml").out
