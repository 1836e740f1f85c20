"""The truth table: its figures have witnesses, archcli equals them, and its script sees what differs."""

import csv
import importlib
import json
import subprocess
import sys

import pytest

from table import every_row, sampled_rows
from truth_tables import TRUTH, check, results

TOOLS = importlib.import_module("tools")
FIGURES = check.truth()
OURS = results()["archcli-llm"]
FILES = {path.stem: json.loads(path.read_text()) for path in check.WITNESSES}

DIFFERS = {
    "factors of RoPE, a tensor of the file": {
        "gguf_bytes_q8_0": "exaone-4.0-32b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-1b"
        " llama-4-scout minicpm3-4b",
        "gguf_bytes_q4_k_m": "exaone-4.0-32b llama-3.1-405b llama-3.1-70b llama-3.1-8b llama-3.2-1b"
        " llama-4-scout",
    },
    "biases of the choice of experts, gates of shared experts in fp32": {
        "gguf_bytes_q8_0": "deepseek-v3 lfm2-8b-a1b minimax-m2.5 nemotron-3-nano-30b-a3b qwen3-next-80b-a3b",
        "gguf_bytes_q4_k_m": "minimax-m2.5",
    },
    "rules of q4_k_m for fused projections, latent attention and widths that no block of 256 divides": {
        "gguf_bytes_q4_k_m": "bloom-7b1 deepseek-v2-lite deepseek-v3 lfm2-8b-a1b minicpm3-4b nemotron-h-8b"
        " nemotron-3-nano-30b-a3b phi-3-mini-4k qwen3-next-80b-a3b",
    },
    "llama.cpp keeps the whole context in place of a window": {
        "llamacpp_cache_bytes@8192": "mistral-7b-v0.1 phi-3-mini-4k",
        "llamacpp_cache_bytes@32768": "mistral-7b-v0.1 phi-3-mini-4k",
    },
    "llama.cpp keeps keys and values of all heads in place of a latent": {
        f"llamacpp_cache_bytes@{n}": "minicpm3-4b" for n in (1024, 8192, 32768)
    },
}
"""Where archcli is not llama.cpp's figure, and why. A mend must shorten this list."""


def as_table(path, answers):
    """A CSV of answers."""
    fields = list(dict.fromkeys(field for row in answers.values() for field in row))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["model", *fields])
        table.writeheader()
        table.writerows({"model": model, **row} for model, row in answers.items())
    return str(path)


def test_every_figure_has_a_witness_that_is_not_archcli():
    for file in FILES.values():
        assert file["licence"] == "CC0-1.0"
        assert file["witness"]
        assert "archcli" not in " ".join(file["software"])
        names = {field.replace("@N", "") for field in file["fields"]}
        for row in file["figures"].values():
            assert {field.partition("@")[0] for field in row} <= names
            # so that a float holds each exactly
            assert all(type(figure) is int and 0 < figure < 2**53 for figure in row.values())
        assert not {*file["refused"]} & {*file["figures"]}
    assert len(FILES["transformers"]["figures"]) >= 60
    assert {*FIGURES} == {*json.loads(check.CONFIGS.read_text())}


@sampled_rows("model", FIGURES, quick=2, lots=3)
def test_archcli_answers_what_is_kept_of_it(model):
    assert TOOLS.answers("archcli-llm", model, FIGURES[model]) == OURS[model]


def test_archcli_equals_every_figure_but_these():
    counts, differing = check.compared(OURS, FIGURES)
    assert sum(outcomes["not answered"] for outcomes in counts.values()) == 0
    listed = {
        (model, field)
        for fields in DIFFERS.values()
        for field, models in fields.items()
        for model in models.split()
    }
    assert {(model, field) for model, field, *_ in differing} == listed
    assert {field.partition("@")[0] for _, field in listed} <= {
        field.replace("@N", "") for field in FILES["llamacpp"]["fields"]
    }


def test_the_script_sees_one_figure_that_differs(tmp_path, capsys):
    assert check.main([as_table(tmp_path / "all.csv", FIGURES)]) == 0
    total = sum(len(row) for row in FIGURES.values())
    assert f"total: {total} equal, 0 differ, 0 not answered" in capsys.readouterr().out
    wrong = {model: dict(row) for model, row in FIGURES.items()}
    # 12 layers of 768 x 768 x 12
    wrong["gpt2"]["params"] = 12 * 12 * 768**2
    del wrong["gpt2"]["active_params"]
    assert check.main([as_table(tmp_path / "wrong.csv", wrong)]) == 1
    printed = capsys.readouterr().out
    assert "gpt2 params: 84,934,656, truth 124,439,808 (-31.7%)" in printed
    assert f"total: {total - 2} equal, 1 differ, 1 not answered" in printed


@every_row(
    "text, message",
    [
        ("params\n1\n", "no column 'model'"),
        ("", "no column 'model'"),
        ("model,params\nno-such-model,1\n", "the truth table has no no-such-model"),
        ("model,weights\ngpt2,1\n", "the truth table has no weights"),
        ("model,params\ngpt2,many\n", "could not convert"),
        ("model,params\ngpt2,1,2\n", "cells"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_error(text, message, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(SystemExit) as stopped:
        check.main([str(path)])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_a_command_is_asked_for_each_model_without_any_package(tmp_path, monkeypatch, capsys):
    configs = {model: json.loads(check.CONFIGS.read_text())[model] for model in ("gpt2", "phi-2")}
    monkeypatch.setattr(check, "CONFIGS", tmp_path / "configs.json")
    check.CONFIGS.write_text(json.dumps(configs))
    tool = tmp_path / "tool.py"
    tool.write_text(
        "import json, sys\njson.load(open(sys.argv[1]))['n_embd']\nprint(json.dumps({'params': 124439808}))\n"
    )
    assert check.main(["--run", f"{sys.executable} {tool} {{config}}"]) == 0
    # phi-2 states no n_embd, so the tool fails
    assert "params: 1 equal, " in capsys.readouterr().out
    alone = [sys.executable, "-I", "-S", str(TRUTH / "check.py"), str(TRUTH / "results/archcli-llm.csv")]
    done = subprocess.run(alone, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert "0 not answered" in done.stdout.splitlines()[-1]


@every_row(
    "command, message",
    [
        (f"{sys.executable} -c 'print([1])'", "prints no JSON object"),
        (f"{sys.executable} -c 'print(1, 2)'", "Extra data"),
        ("no-such-calculator {config}", "no-such-calculator"),
        ('echo {"params":[1]}', "float() argument"),
        ('echo {"weights":1}', "the truth table has no weights"),
    ],
)
def test_a_command_that_cannot_be_asked_is_one_error(command, message, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(check, "CONFIGS", tmp_path / "configs.json")
    check.CONFIGS.write_text('{"gpt2": {}}')
    with pytest.raises(SystemExit) as stopped:
        check.main(["--run", command.replace('"', r"\"")])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_other_calculators_are_kept_with_version_and_date():
    about = json.loads((TRUTH / "results/tools.json").read_text())
    assert {*about} == {*TOOLS.TOOLS}
    for tool, answers in results().items():
        assert {*about[tool]} == {"version", "date"}
        assert check.unknown(answers, FIGURES) == []
        counts, _ = check.compared(answers, FIGURES)
        assert sum(outcomes["equal"] for outcomes in counts.values()) > 0


@pytest.mark.long
@pytest.mark.parametrize("model", ["gpt2", "mamba-130m", "qwen3-0.6b"])
def test_the_figures_of_transformers_can_be_had_again(model):
    make = importlib.import_module("make")
    assert make.by_transformers(model, None) == FILES["transformers"]["figures"][model]
