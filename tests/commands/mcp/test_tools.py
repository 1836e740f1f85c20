"""Each tool of `archcli mcp`: its answer is that of its command, and a wrong argument says what to ask."""

import json
import shlex

import pytest

from archcli.wings.doors.commands.mcp.answers import MOST_BYTES
from assistant import answer, answers, refused
from table import sampled_rows

GQA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
PARAMS = 2 * 1000 * 64 + 3 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 96 + 2 * 64) + 64
"""Tables; of each layer q and o, k and v, the network, norms; the last norm."""
VALID = {
    "params": {"model": "llama-3.1-8b", "depth": 2, "dtype": "fp8"},
    "flops": {"model": "llama-3.1-8b", "phase": "decode", "past": "8k", "batch_size": 4},
    "kvcache": {"model": "llama-3.1-8b", "context": "128K", "memory": "80GiB"},
    "memory": {"model": "llama-3.1-8b", "phase": "serve", "device": "h100-sxm", "seq_len": 4096},
    "predict": {"model": "llama-3.1-8b", "device": "4xh100-sxm", "compiled": False, "tp": 4},
    "fit": {"model": "llama-3.1-8b", "device": "rtx-4090", "kv_dtype": "fp8"},
    "check": {"model": "llama-3.1-8b", "set": ["d_ff=14337"], "select": ["FFN"]},
    "compare": {"models": ["gpt2", "llama-3.1-8b"], "seq_len": 1024, "set": ["1:n_layers=6"]},
    "explain": {"model": "gpt2", "quantity": "kvcache", "context": 512, "at": ["d_model"]},
    "sweep": {"model": "gpt2", "vary": ["d_ff=1024:4096:1024"], "where": ["params < 120M"], "top": 2},
}
OUR_OWN = {"elapsed_s"}
"""Figures that no two runs share."""


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", VALID)
def test_all_rows_are_those_of_the_command_that_it_names(name, cli):
    told = answer(name, rows=True, **VALID[name])
    program, *words = shlex.split(told["command"])
    assert (program, words[0]) == ("archcli", name)
    document = json.loads(cli(*words, "--json").out)
    for key in ("totals", "rows"):
        assert without(told.get(key, [])) == without(document[key]), key
    assert told["convention"] == document["convention"]
    noted = told.get("notes", [])
    assert noted[: len(document["notes"])] == document["notes"]  # then those that the command prints apart
    assert "left_out" not in told


def without(figures):
    return {key: figures[key] for key in figures if key not in OUR_OWN} if "elapsed_s" in figures else figures


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("name", VALID)
def test_an_answer_says_its_sentence_its_convention_and_what_it_leaves_out(name):
    told = answer(name, **VALID[name])
    assert next(iter(told)) == "headline"
    assert told["headline"].count(" ") > 3
    assert told["convention"]
    assert len(json.dumps(told, ensure_ascii=False).encode()) <= MOST_BYTES
    whole = answer(name, rows=True, **VALID[name])
    missing = [key for key in whole["totals"] if key not in told["totals"]]
    for key in missing:
        assert f"totals.{key}" in told["left_out"]
    fewer = len(whole["rows"]) - len(told.get("rows", []))
    assert (f"{fewer} of {len(whole['rows'])} rows" in told.get("left_out", "")) is (fewer > 0)
    assert ("rows=true" in told.get("left_out", "")) is bool(missing or fewer)


@pytest.mark.long
def test_the_sentence_is_the_reports_own():
    assert answer("params", model="llama-3.1-8b")["headline"].startswith(
        "llama-3.1-8b: 8.03B parameters, all active"
    )
    memory = answer("memory", model="llama-3.1-8b", device="h100-sxm")
    assert "Training does not fit into h100-sxm (79.1 GiB)" in memory["headline"]
    assert "Serving fits into h100-sxm (79.1 GiB)" in memory["headline"]
    assert "tokens/s" in answer("predict", model="llama-3.1-8b", device="h100-sxm")["headline"]
    assert "fits rtx-4090 as bf16" in answer("fit", model="llama-3.1-8b", device="rtx-4090")["headline"]
    assert answer("check", model="gpt2")["headline"].startswith("gpt2: 1 warning, 4 info. Check, ")
    assert answer("explain", model="gpt2")["headline"].startswith(
        "gpt2: 124,439,808 parameters = d_model*(max_seq_len + vocab_size + 2) + "
    )
    assert "2 of 2 candidates match" in answer("sweep", model="gpt2", vary=["d_ff=64,128"])["headline"]


def test_a_model_is_given_as_an_object_or_as_a_text(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(GQA))
    forms = [GQA, json.dumps(GQA), json.dumps(GQA, indent=2)]
    for form in forms:
        told = answer("params", model=form)
        assert told["totals"]["params"] == PARAMS
        assert told["command"] == "archcli params config.json"
    assert answer("params", folder=tmp_path, model="config.json")["totals"]["params"] == PARAMS
    yaml = "vocab_size: 10\nd_model: 4\nnorm: rmsnorm\ngroups:\n- n_layers: 1\n  layer:\n    kind: pre_norm\n"
    yaml += "    attention: {kind: gqa, n_heads: 2, n_kv_heads: 1}\n    ffn: {kind: glu, d_ff: 8}\n"
    told = answer("params", model=yaml, set=["n_layers=2"])
    block = 2 * 4 * 4 + 2 * 4 * 2 + 3 * 4 * 8 + 2 * 4
    assert told["totals"]["params"] == 2 * 10 * 4 + 2 * block + 4
    assert told["command"] == "archcli params model.yaml --set n_layers=2"


def test_a_given_model_may_stand_beside_a_preset():
    told = answer("compare", models=[GQA, "gpt2"], set=["2:n_layers=6"], rows=True)
    rows = {row["key"]: row for row in told["rows"] if row["section"] == "Parameters"}
    half = 124_439_808 - 6 * (12 * 768**2 + 13 * 768)  # matrices, biases and norms of six blocks
    assert (rows["params"]["value_1"], rows["params"]["value_2"]) == (PARAMS, half)


@pytest.mark.long
def test_a_model_is_named_as_people_do():
    for name in ("llama3.1:8b", "Llama-3.1-8B"):
        assert answer("params", model=name)["totals"]["params"] == 8_030_261_248
    assert answer("fit", model="gpt-oss:20b", device="RTX 4090")["headline"].startswith("gpt-oss-20b: fits")


@pytest.mark.long
def test_a_device_alone_lists_what_fits_it():
    told = answer("fit", device="rtx-3060", where=["params > 8B", "params < 8.1B"])
    assert told["totals"]["asked"] >= len(told["rows"]) > 0
    assert all(8e9 < row["params"] < 8.1e9 for row in told["rows"])
    assert "llama-3.1-8b" in {row["model"] for row in told["rows"]}


def test_one_text_may_stand_for_a_list():
    told = answer("sweep", model="gpt2", vary="d_ff=64,128", where=["params > 1"])
    assert told["command"] == "archcli sweep gpt2 --vary d_ff=64,128 --where 'params > 1'"
    assert told["totals"]["candidates"] == 2


def test_an_ambiguous_size_is_noted():
    told = answer("kvcache", model="llama-3.1-70b", context="128k", memory="80G")
    assert "128k is 128,000 tokens; 128Ki is 131,072" in told["notes"]
    assert any("80G is 80GB" in note for note in told["notes"])


def test_tokens_stand_under_either_name():
    ours, theirs = answers([("kvcache", {"model": "gpt2", name: 512}) for name in ("context", "seq_len")])
    assert ours.structured_content["totals"] == theirs.structured_content["totals"]
    assert ours.structured_content["command"] == theirs.structured_content["command"]


def test_one_model_stands_under_either_name():
    """Tools of several models take `model`, and those of one a list of one."""
    drawn, counted = answers([("draw", {"model": "gpt2"}), ("params", {"models": ["gpt2"]})])
    assert "124M parameters" in drawn.structured_content["drawing"]
    assert counted.structured_content["totals"]["params"] == 124_439_808
    assert "no preset" in refused("draw", model=["gpt2", "gpt-9"])


def test_a_drawing_is_text_or_an_embedded_svg():
    (text, svg) = answers(
        [
            ("draw", {"models": ["llama-3.1-8b"]}),
            ("draw", {"models": ["gpt2", "bert-base-uncased"], "svg": True}),
        ]
    )
    assert "8.03B parameters" in text.structured_content["drawing"]
    assert len(text.content[0].text.encode()) <= MOST_BYTES
    resource = svg.content[1].resource
    assert resource.mime_type == "image/svg+xml"
    assert str(resource.uri) == "archcli://draw/gpt2-bert-base-uncased.svg"
    assert resource.text.startswith("<svg")
    assert "bert-base-uncased" in resource.text
    assert len(svg.content[0].text.encode()) <= MOST_BYTES


WRONG = [
    ("params", {}, ["model is missing", "A preset such as"]),
    ("params", {"model": "lama-3.1-8b"}, ["no preset 'lama-3.1-8b'", "llama-3.1-8b"]),
    ("params", {"model": "lama"}, ["no preset 'lama'", "llama-3.1-8b"]),
    ("params", {"model": "qwenn-99b"}, ["no preset", "did you mean qwen"]),
    (
        "params",
        {"model": "zzz"},
        ["config.json as an object", "fit with a device lists presets"],
    ),
    ("params", {"model": "Llama-3.1-8B-Instruktion"}, ["did you mean llama-3.1-8b"]),
    ("params", {"model": "someone/else"}, ["not the hub", "config.json as an object"]),
    ("params", {"model": "os:getcwd"}, ["a Python module", "archcli mcp imports none"]),
    ("params", {"model": "/etc/passwd"}, ["no preset", "config.json as an object"]),
    ("params", {"model": 7}, ["must be a name, a text or an object, not 7"]),
    ("params", {"model": ""}, ["model must be a name"]),
    ("params", {"model": "gpt2", "modle": "x"}, ["unknown argument 'modle'", "did you mean model?"]),
    ("params", {"model": "gpt2", "against": "x"}, ["unknown argument 'against'"]),
    ("params", {"model": "gpt2", "dtype": "fp99"}, ["fp99"]),
    ("params", {"model": "gpt2", "rows": "yes"}, ["rows must be True or False"]),
    ("params", {"model": "gpt2", "set": "d_ff=1"}, ["set must be a list"]),
    ("params", {"model": "gpt2", "set": ["d_fff=1"]}, ["d_fff", "did you mean"]),
    ("params", {"model": {"model_type": "lama", "hidden_size": 4}}, ["lama", "llama"]),
    ("params", {"model": "{"}, ["model:1:"]),
    ("flops", {"model": "gpt2", "phase": "sideways"}, ["forward, train, prefill or decode"]),
    ("flops", {"model": "gpt2", "seq_len": 0}, ["a whole number above 0"]),
    ("flops", {"model": "gpt2", "seq_len": "eight"}, ["seq_len", "eight"]),
    ("flops", {"model": "gpt2", "seq_len": -1, "batch_size": 1.5}, ["seq_len", "batch_size"]),
    ("kvcache", {"model": "bert-base-uncased", "context": []}, ["context"]),
    ("kvcache", {"model": "gpt2", "memory": "eighty"}, ["eighty"]),
    ("memory", {"model": "gpt2", "memory": "80"}, ["has no unit", "80GiB"]),
    ("memory", {"model": "gpt2", "device": "h1000"}, ["h1000", "h100"]),
    ("memory", {"model": "gpt2", "device": "./secret.yaml"}, ["names a file", "h100-sxm"]),
    ("predict", {"model": "gpt2"}, ["device is missing"]),
    ("predict", {"model": "gpt2", "device": "h100-sxm", "utilization": 2}, ["utilization", "at most 1"]),
    ("fit", {"model": "gpt2"}, ["fit needs a device", "device=rtx-4090"]),
    ("fit", {}, ["fit needs a device"]),
    ("check", {"model": "gpt2", "select": ["XYZ"]}, ["XYZ"]),
    ("compare", {"models": ["gpt2"]}, ["2 to 8 models"]),
    ("compare", {"models": "gpt2"}, ["2 to 8 models"]),
    ("compare", {"models": ["gpt2", "gpt3"], "set": ["3:d_ff=4"]}, ["no model 3"]),
    ("explain", {"model": "gpt2", "quantity": "time"}, ["params, flops or kvcache"]),
    ("explain", {"model": "gpt2", "context": 4}, ["context changes nothing of params"]),
    ("sweep", {"model": "gpt2"}, ["nothing varies"]),
    ("sweep", {"model": "gpt2", "vary": ["d_ff"]}, ["d_ff"]),
    (
        "sweep",
        {"model": "gpt2", "vary": ["d_ff=1,2"], "where": ["time(device=x.YAML) < 1"]},
        ["names a file"],
    ),
    ("draw", {"models": ["gpt2"] * 5}, ["1 to 4 models"]),
    ("draw", {"models": ["gpt2"], "show": "time"}, ["time"]),
    ("count", {"model": "gpt2"}, ["no tool 'count'", "params"]),
]


@sampled_rows(("name", "arguments", "words"), WRONG, 4)
def test_a_wrong_argument_says_what_to_ask_instead(name, arguments, words):
    text = refused(name, **arguments)
    assert text.startswith(("error: ", f"{name}: ", "model:", "--set", "--vary"))
    missing = [word for word in words if word not in text]
    assert not missing, (missing, text)
    assert len(text.encode()) <= MOST_BYTES
