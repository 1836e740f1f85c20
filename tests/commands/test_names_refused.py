"""Names that the system refuses, files that would be written over what is read, and an index too old."""

import json

import pytest

from archcli.load.presets import presets_index
from archcli.measure.survey.columns import COLUMNS as SURVEYED

LONGEST = "x" * 300
NAMED = [
    ("params", "{}"),
    ("flops", "{}"),
    ("kvcache", "{}"),
    ("memory", "{}"),
    ("check", "{}"),
    ("check", "gpt2", "{}"),
    ("check", "{}/config.json"),
    ("show", "{}"),
    ("draw", "{}"),
    ("scale", "{}", "--params", "3B"),
    ("sweep", "{}", "--vary", "d_ff=64:128:64"),
    ("explain", "params", "{}"),
    ("compare", "gpt2", "{}"),
    ("predict", "{}", "--device", "h100-sxm"),
    ("predict", "gpt2", "--device", "{}"),
    ("fit", "{}", "h100-sxm"),
    ("fit", "gpt2", "{}"),
    ("fit", "--files", "{}"),
    ("plot", "{}.json"),
    ("params", "gpt2", "--json", "-o", "{}.json"),
]


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("line", NAMED, ids=" ".join)
def test_a_name_that_the_system_refuses_is_one_error(line, cli):
    done = cli(*(word.format(LONGEST) for word in line))
    assert done.code == 2
    assert "error: " in done.err.splitlines()[0]


CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
OVER = [
    ("params", "config.json", "-o", "config.json"),
    ("params", "config.json", "--json", "-o", "./config.json"),
    ("params", "linked.json", "-o", "config.json"),
    ("params", "config.json", "-o", "linked.json"),
    ("params", ".", "-o", "config.json"),
    ("check", "config.json", "--json", "-o", "config.json"),
    ("compare", "gpt2", "config.json", "-o", "config.json"),
    ("sweep", "config.json", "--vary", "d_ff=64:128:64", "-o", "config.json"),
    ("scale", "config.json", "--params", "1M", "--write-yaml", "config.json"),
]


@pytest.mark.parametrize("line", OVER, ids=" ".join)
def test_a_file_that_is_read_is_not_written_over(line, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    (tmp_path / "linked.json").symlink_to(file)
    done = cli(*line)
    assert (done.code, json.loads(file.read_text())) == (2, CONFIG)
    assert (
        done.err.splitlines()[0] == f"error: {line[-1].removeprefix('./')} is read, and would be written over"
    )


def test_a_file_beside_it_is_written(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "answer.json").write_text("older")
    assert cli("params", ".", "-o", "answer.json").code == 0
    assert json.loads((tmp_path / "answer.json").read_text())["command"] == "params"


def test_an_index_without_a_column_is_named_with_what_renews_it(cli, monkeypatch):
    records = [{**record, "judged": {"vocab_size": 1}} for record in presets_index()]
    monkeypatch.setattr("archcli.load.presets.presets_index", lambda: records)
    lacks = "error: presets/index.json lacks {}\n  = help: in a checkout of archcli, pytest -n0 --renew "
    for asked in (["check", "gpt2"], ["rule", "FFN002"]):
        done = cli(*asked)
        judged = "active_share, aspect_ratio, attention_share, d_ff_ratio, head_ratio"
        assert (done.code, done.err.startswith(lacks.format(judged))) == (2, True)
    for asked in ("survey", "list"):
        assert cli(asked).code == 0
    monkeypatch.setitem(SURVEYED, "new_column", SURVEYED["params"]._replace(key="new_column"))
    for asked in ("survey", "list"):
        done = cli(asked)
        assert (done.code, done.err.startswith(lacks.format("new_column"))) == (2, True)
