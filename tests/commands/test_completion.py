"""Completion of the command line, as bash, zsh and fish ask for it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from archcli.cli import main
from archcli.commands.line import completion
from archcli.rules import all_rules
from archcli.wings.serving.devices.datasheet import devices
from table import every_row

PRESETS = Path(__file__).parents[2] / "presets"
ENVIRONMENT = (completion.COMPLETE, completion.BASH_WORDS, completion.BASH_INDEX, completion.OTHER_WORDS)


@pytest.fixture
def ask(monkeypatch, capsys, tmp_path):
    """ask("bash", "params", "gp"): what is offered for the last word, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(completion.HEAD, "")

    def asked(shell, *words):
        monkeypatch.setattr(sys, "argv", ["archcli"])
        for name in ENVIRONMENT:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(completion.HEAD, "")
        monkeypatch.setenv(completion.COMPLETE, f"complete_{shell}")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        if shell == "bash":
            monkeypatch.setenv(completion.BASH_WORDS, "\n".join(["archcli", *words]))
            monkeypatch.setenv(completion.BASH_INDEX, str(len(words)))
        else:
            monkeypatch.setenv(completion.OTHER_WORDS, " ".join(["archcli", *words]))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        out, err = capsys.readouterr()
        assert err == ""
        lines = out.splitlines()
        if shell == "zsh":  # "value" or "value":"help" on each line, signs escaped
            return [re.search(r'"(.*?)"', line)[1].replace(r"\\:", ":") for line in lines if line]
        return [line.split("\t")[0] for line in lines if line]

    return asked


def codes_of(start):
    return [code for code in all_rules() if code.startswith(start)]


def devices_of(start):
    return [name for name in devices() if name.startswith(start)]


KINDS_OF_NORM = [
    "affine",
    "batchnorm",
    "layernorm",
    "prescaled_rmsnorm",
    "rmsnorm",
    "self_gated",
]
CASES = [
    (["k"], ["kvcache"]),
    (["rule"], ["rules", "rule"]),
    (["params", "gpt-o"], ["gpt-oss-120b", "gpt-oss-20b"]),
    (["profile", "iva"], ["ivanov"]),
    (["compare", "gpt2", "phi-3-m"], ["phi-3-medium-4k", "phi-3-mini-4k"]),
    (["params", "gpt2", "--set", "d_m"], ["d_model=768"]),
    (["params", "gpt2", "--set", "d_f"], ["d_ff=3072"]),
    (["params", "gpt2", "--set", "bia"], ["bias=false", "bias=true"]),
    (["params", "gpt2", "--set", "norm.ki"], [f"norm.kind={kind}" for kind in KINDS_OF_NORM]),
    (["params", "gpt2", "--set", "layer.kind=par"], ["layer.kind=parallel"]),
    (["params", "gpt2", "--set", "activation=gelu_"], ["activation=gelu_tanh"]),
    (["params", "--set", "norm.kind=r"], ["norm.kind=rmsnorm"]),
    (["params", "gpt2", "--set=norm.kind=r"], ["norm.kind=rmsnorm"]),
    (["params", "deepseek-v3", "--set", "top_"], ["top_k=8", "top_k_groups=4"]),
    (["list", "--where", "para"], ["params=", "params!=", "params<", "params<=", "params>", "params>="]),
    (["survey", "--where", "seri"], ["series=", "series!=", "series~"]),
    (["survey", "--where", "tie"], ["tied=", "tied!="]),
    (["list", "--sort", "param"], ["params", "params:desc"]),
    (["survey", "--columns", "params,d_mo"], ["params,d_model"]),
    (["survey", "--by", "y"], ["year"]),
    (["rule", "FFN00"], codes_of("FFN00")),
    (["check", "gpt2", "--select", "MOE00"], codes_of("MOE00")),
    (["kvcache", "gpt2", "--device", "h1"], devices_of("h1")),
    (["fit", "gpt2", "h1"], devices_of("h1")),
    (["fit", "--device", "h1"], devices_of("h1")),
    (["memory", "gpt2", "--device", "8xh1"], [f"8x{name}" for name in devices_of("h1")]),
    (["predict", "gpt2", "--device", "16×mi"], [f"16×{name}" for name in devices_of("mi")]),
    (["scale", "gpt2", "--device", "loc"], ["local"]),
    (["devices", "rtx-4"], devices_of("rtx-4")),
    (["profile", "gpt2", "--device", "cu"], ["cuda"]),
    (["profile", "gpt2", "--vs", "attention=e"], ["attention=eager"]),
    (
        ["profile", "gpt2", "--vs", "norm.kind=rmsnorm,comp"],
        ["norm.kind=rmsnorm,compile=false", "norm.kind=rmsnorm,compile=true"],
    ),
    (
        ["memory", "gpt2", "--offload", ""],
        ["activations", "all", "auto", "experts", "experts:", "layers:", "optimizer", "parameters"],
    ),
    (["memory", "gpt2", "--recompute", "la"], ["layer", "layers.*.ffn"]),
    (["memory", "gpt2", "--loss", "c"], ["chunked:"]),
    (["memory", "gpt2", "--optimizer", "adamw-m"], ["adamw-mixed", "adamw-mixed-fused"]),
    (["fit", "gpt2", "h100", "--min-speed", "2"], ["20"]),
    (["params", "gpt2", "--format", "j"], ["json"]),
    (["params", "gpt2", "--dtype", "bf"], ["bf16", "bfloat16"]),
    (["flops", "--phase", "d"], ["decode"]),
    (["params", "--js"], ["--json"]),
]


@pytest.mark.long
@every_row(("words", "offered"), CASES, ids=" ".join)
@every_row("shell", ["fish", "zsh"])
def test_a_word_is_completed(ask, shell, words, offered):
    assert ask(shell, *words) == offered


OWN = "import nothing_that_is_there\n\nclass GPT: pass\n\ndef make(): pass\n\nSIZE = 3\n"
OWN_MODULES = [
    (["summary", "py:"], ["py:model:"]),
    (["summary", "mod"], ["model:"]),
    (["summary", "py:model:"], ["py:model:GPT", "py:model:make"]),
    (["summary", "model:G"], ["model:GPT"]),
    (["summary", "py:broken:"], []),
]


@pytest.mark.parametrize(("words", "offered"), OWN_MODULES, ids=" ".join)
def test_a_module_of_ones_own_is_completed_without_its_import(ask, tmp_path, words, offered):
    (tmp_path / "model.py").write_text(OWN)
    (tmp_path / "broken").with_suffix(".txt").write_text("def (")
    assert ask("fish", *words) == offered


BASH = [
    (["params", "gpt2", "--set", "norm.kind", "=", "r"], ["rmsnorm"]),
    (["params", "gpt2", "--set", "norm.kind", "="], KINDS_OF_NORM),
    (["params", "gpt2", "--set", "=", "norm.kind", "=", "r"], ["rmsnorm"]),
    (["params", "gpt2", "--set", "=", "d_f"], ["d_ff=3072"]),
    (["params", "gpt2", "--format", "=", "j"], ["json"]),
    (["list", "--sort", "params", ":", "d"], ["desc"]),
    (["params", "gpt-o"], ["gpt-oss-120b", "gpt-oss-20b"]),
    (["rule"], ["rules", "rule"]),
]


@every_row(("words", "offered"), BASH, ids=" ".join)
def test_bash_takes_signs_for_words_of_their_own(ask, words, offered):
    assert ask("bash", *words) == offered


def test_presets_are_offered_and_the_model_files_beside_them(ask, tmp_path):
    for name in ("gpt2-mine.yaml", "gpt2.json", "gpt2.txt", "$(gpt2).yaml", "gpt2 x.yaml", "-gpt2.yaml"):
        (tmp_path / name).write_text("")
    (tmp_path / "gpt2-folder").mkdir()
    (tmp_path / "gpt2-folder" / "config.json").write_text("{}")
    sizes = ["gpt2-large", "gpt2-medium", "gpt2-xl"]
    assert sorted(ask("bash", "params", "gpt2")) == sorted(
        ["gpt2", "gpt2-folder/", "gpt2-mine.yaml", "gpt2.json", *sizes]
    )
    names = {path.stem for path in PRESETS.glob("*.yaml")}
    assert names < set(ask("bash", "params", ""))


def test_where_no_preset_fits_the_shell_lists_its_files(ask, tmp_path):
    (tmp_path / "mine.yaml").write_text("")
    assert ask("bash", "params", "mi")[-1] == "mine.yaml"
    assert ask("bash", "params", "mine") == []
    assert ask("bash", "params", "./") == []


@pytest.mark.parametrize(
    "name", ["org/name", "hf://org/name", "-", "broken.yaml", "nowhere.yaml", "huge.yaml"]
)
def test_a_model_that_cannot_be_read_at_once_has_no_fields(ask, tmp_path, monkeypatch, name):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("asked the net"))
    (tmp_path / "broken.yaml").write_text("d_model: [")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)
    assert ask("fish", "params", name, "--set", "d_") == []
    assert ask("fish", "params", name, "--set", "norm.kind=r") == ["norm.kind=rmsnorm"]


@pytest.mark.long
def test_completing_imports_no_torch_and_reads_few_presets():
    code = (
        "import sys\nsys.argv = ['archcli']\nfrom archcli.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules, 'yaml' in sys.modules, file=sys.stderr)"
    )
    asked = {completion.COMPLETE: "complete_fish", completion.OTHER_WORDS: "archcli survey --where par"}
    asked["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert "params" in done.stdout
    assert done.stderr.split()[:2] == ["False", "False"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_shown_by_its_name(cli, monkeypatch, shell):
    monkeypatch.setenv(completion.NAMED_SHELL, "")
    done = cli("--show-completion", shell)
    assert (done.code, done.err) == (0, "")
    assert {"bash": "complete -o default", "zsh": "#compdef archcli", "fish": "complete --command archcli"}[
        shell
    ] in done.out


@pytest.mark.long
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_by_the_script(cli, monkeypatch, tmp_path):
    monkeypatch.setenv(completion.NAMED_SHELL, "")
    script = cli("--show-completion", "bash").out
    (tmp_path / "archcli").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m archcli "$@"\n')
    (tmp_path / "archcli").chmod(0o755)
    words = "COMP_WORDS=(archcli params gpt2 --set norm.kind = r); COMP_CWORD=6; _archcli_completion archcli"
    done = subprocess.run(
        [shutil.which("bash"), "-c", f'{script}\n{words}; echo "${{COMPREPLY[@]}}"'],
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stdout == "rmsnorm\n"


MANGLED = [
    ({completion.COMPLETE: "garbage"}, "_ARCHCLI_COMPLETE is 'garbage'"),
    ({completion.COMPLETE: "complete"}, "_ARCHCLI_COMPLETE is 'complete'"),
    ({completion.COMPLETE: "complete_cmd"}, "_ARCHCLI_COMPLETE is 'complete_cmd'"),
    ({completion.COMPLETE: "ask_bash"}, "_ARCHCLI_COMPLETE is 'ask_bash'"),
    ({completion.COMPLETE: "complete_bash"}, "COMP_WORDS is missing"),
    ({completion.COMPLETE: "complete_bash", "COMP_WORDS": "archcli"}, "COMP_CWORD is missing"),
    *(
        (
            {completion.COMPLETE: "complete_bash", "COMP_WORDS": "archcli\npar", "COMP_CWORD": index},
            "COMP_CWORD is",
        )
        for index in ("x", "", "-1", "0", "99", "9" * 5000)
    ),
]


@pytest.mark.parametrize(("environment", "line"), MANGLED, ids=str)
def test_a_mangled_environment_is_answered_by_a_line(cli, monkeypatch, environment, line):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    done = cli("params", "gpt2")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {line}")
    assert "archcli --show-completion SHELL" in done.err


def test_an_empty_variable_asks_for_nothing(cli, monkeypatch):
    monkeypatch.setenv(completion.COMPLETE, "")
    assert cli("params", "gpt2").code == 0
