"""Command lines read without typer: the program's own answers, errors and exit codes."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from archcli.cli import main
from archcli.commands.line.names import COMMANDS, place_of
from archcli.commands.line.values import reader
from archcli.errors import ArchError
from archcli.plugins import imported
from archcli.wings.doors.line.ask import ELSEWHERE, ask, run_line
from archcli.wings.doors.line.words import parameters_of
from checking import BROKEN
from command_lines import ANSWERED, LEFT_OUT, REFUSED
from printed import caught
from table import every_row, sampled_rows
from tiny_model import TINY

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}


@pytest.fixture
def program(monkeypatch):
    """program(["params", "gpt2"]): what the program does."""

    def run(argv):
        monkeypatch.setattr(sys, "argv", ["archcli", *argv])
        return caught(main)

    return run


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """The folder in which all is asked, with what the lines name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    texts = {
        "tiny.yaml": TINY,
        "broken.yaml": BROKEN,
        "broken.json": "{",
        "foreign.json": '{"model_type": "of another program"}',
        "list.yaml": "- 1\n",
        "llama/config.json": json.dumps(LLAMA),
    }
    for folder in ("empty", "llama"):
        Path(folder).mkdir()
    for name, text in texts.items():
        Path(name).write_text(text)


def test_there_are_command_lines_of_every_command():
    asked = [shlex.split(line)[0] for line in [*ANSWERED, *REFUSED, *LEFT_OUT]]
    assert {*asked} >= {*COMMANDS}
    assert len(asked) > 200


@sampled_rows("line", ANSWERED, 4)
def test_an_answer_is_the_programs(line, program):
    argv = shlex.split(line)
    code, out, err = caught(lambda: run_line(argv))
    assert (code, out, err) == program(argv)
    assert out
    assert code in {0, 1} or "nowhere" in line


@sampled_rows("line", REFUSED, 4)
def test_an_error_is_the_programs(line, program):
    argv = shlex.split(line)
    code, out, err = caught(lambda: run_line(argv))
    assert (code, out, err) == program(argv)
    assert (code, out) == (2, "")
    assert "error: " in err


@pytest.mark.long
@every_row("line", ["params tiny.yaml", "check broken.yaml", "rule FFN001", "list", "explain tiny.yaml -o -"])
def test_an_answer_is_json_unless_a_format_is_named(line, program):
    argv = shlex.split(line)
    assert ask(argv) == program([*argv, "--json"])[1]
    assert ask(argv, as_json=False) == program(argv)[1]


@every_row("line", ["params tiny.yaml --format md", "check broken.yaml --suggest", "draw tiny.yaml -o -"])
def test_a_text_that_is_asked_for_is_no_json(line, program):
    argv = shlex.split(line)
    assert ask(argv) == program(argv)[1]


@every_row("line", LEFT_OUT)
def test_what_is_not_answered_says_what_is(line):
    with pytest.raises(ArchError) as refused:
        ask(shlex.split(line))
    assert len(refused.value.problems) == 1
    assert refused.value.problems[0].hint
    assert sorted(path.name for path in Path().iterdir() if path.name.startswith("x.")) == []


@every_row("text", ["\ud800", "a\x00b", "\x1b[31m", "\u202e", "😀" * 50])
def test_any_text_is_an_answer_or_one_error(text):
    """What no shell hands over, and a page may."""
    words = (["params", text], ["params", "gpt2", f"--{text}"], ["params", "gpt2", "--set", f"name={text}"])
    for argv in (*words, ["params", "gpt2", "--dtype", text], ["params", "gpt2", "--format", text], [text]):
        code, _, err = caught(lambda argv=argv: run_line(argv))
        assert code in {0, 2}
        assert "\x1b" not in err


def test_a_default_is_what_reading_it_gives():
    """typer reads the defaults, too; they are taken as they stand without it."""
    read = []
    for name in {*COMMANDS} - {*ELSEWHERE, "report"}:  # whose default is a file
        for it in parameters_of(imported(place_of(name))):
            if it.option.reads and it.default is not None:
                read.append(it.name)
                value = reader(it.name, it.option, it.annotation)(it.default)
                assert (type(value), value) == (type(it.default), it.default)
    assert {"batch_size", "dtype"} <= {*read}


ALONE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"no {{name}}", name=name)

sys.meta_path.insert(0, Missing())
import json
from archcli.wings.doors.line.ask import ask
from archcli.errors import ArchError

answers = []
for argv in json.loads(sys.stdin.read()):
    try:
        answers.append(ask(argv))
    except ArchError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""
PACKAGES = ("typer", "click", "rich", "pydantic", "torch", "transformers", "pandas", "huggingface_hub")
NUMBERS = ("sympy", "mpmath", "numpy")


def alone(argvs, names):
    """What is answered by an interpreter without some packages."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(names=set(names))],
        input=json.dumps(argvs),
        text=True,
        capture_output=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.long
def test_no_package_but_yaml_is_needed():
    """All but sweep, explain and report, which take numpy and sympy, and bench, which takes a server."""
    asked = [shlex.split(line) for line in ANSWERED if not line.startswith(("sweep", "explain"))]
    first = {argv[0]: argv for argv in asked}
    assert {*first} | {"sweep", "explain", "report", "bench", *ELSEWHERE} == {*COMMANDS}
    asked = [*first.values(), ["params", "gpt2", "--dtype", "fp7"], ["params", "-x"]]
    assert alone(asked, PACKAGES + NUMBERS) == [answer(argv) for argv in asked]
    asked = [["explain", "tiny.yaml", "flops"]]
    assert alone(asked, PACKAGES) == [answer(argv) for argv in asked]
    assert "this needs" in alone(asked, PACKAGES + NUMBERS)[0]


def answer(argv):
    """What is answered here, or the error's text."""
    try:
        return ask(argv)
    except ArchError as error:
        return str(error)
