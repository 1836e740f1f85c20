"""Names of files that the system refuses, and files that would be written over what is read."""

import json

import pytest

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


@pytest.mark.sample(11, whole=True)
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
