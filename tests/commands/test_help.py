"""Help pages at any width: whole words, whole lines, every subcommand in one line."""

import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from archcli.commands.line.application import application, every_command
from archcli.commands.line.names import COMMANDS, GROUPS, HELP, near_option, place_of
from archcli.commands.line.pages import EXAMPLES, HEADINGS
from archcli.plugins import imported
from archcli.render import help as pages
from table import every_row

PAGES = [(), *((command,) for command in COMMANDS)]
WIDTHS = (40, 80, 200)
CONFIGS = Path(__file__).parents[1] / "oracle" / "configs"


def page_of(cli, monkeypatch, width, *command):
    monkeypatch.setenv("COLUMNS", str(width))
    done = cli(*command, "-h")
    assert (done.code, done.err) == (0, "")
    return done.out


def words(page):
    """Words; choices such as `<all|last>` may stand on two lines."""
    return re.split(r"\s+|(?<=\|)", page)


@every_row("width", WIDTHS)
@every_row("command", PAGES, ids=" ".join)
def test_no_line_is_cut_and_no_word_is_broken(cli, monkeypatch, command, width):
    page = page_of(cli, monkeypatch, width, *command)
    with monkeypatch.context() as wide:
        wide.setattr(pages, "WIDEST", 100_000)
        unfolded = page_of(cli, wide, 100_000, *command)
    assert max(map(len, page.splitlines())) <= min(width, 80)
    assert "".join(page.split()) == "".join(unfolded.split())
    assert set(words(page)) == set(words(unfolded))
    assert "…" not in page


def test_every_subcommand_has_a_line_below_its_group(cli, monkeypatch):
    lines = page_of(cli, monkeypatch, 80).splitlines()
    for group, commands in GROUPS.items():
        first = lines.index(f"{group}:") + 1
        listed = [line.split(maxsplit=1) for line in lines[first : first + len(commands)]]
        assert [name for name, _ in listed] == list(commands)
        assert all(meaning.endswith(".") for _, meaning in listed)
    assert sorted(COMMANDS) == sorted(name for names in GROUPS.values() for name in names)


def test_the_listed_lines_are_the_first_lines_of_the_commands():
    assert {name for names in GROUPS.values() for name in names} == {*HELP}
    for name, line in HELP.items():
        run = imported(place_of(name))
        assert (name, line) == (name, inspect.getdoc(run).partition("\n")[0])


IMPORTED = """
import sys
from archcli.commands.line.application import application, exit_code
try:
    exit_code(application(sys.argv[1:]), sys.argv[1:])
except SystemExit:
    pass
BEGINNINGS = ("archcli.api.", "archcli.modules.models", "archcli.wings.")
print(sorted(name for name in sys.modules if name.startswith(BEGINNINGS)))
"""


@pytest.mark.long
@every_row("line", ["--version", "-h", "parms gpt2", "help", ""])
def test_help_versions_and_a_mistyped_command_import_no_command(line):
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED, *line.split()],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    allowed = ["archcli.api.asking", "archcli.api.asking.question"]
    assert ran.stdout.splitlines()[-1] == str(allowed)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_begins_with_the_line_of_the_list(cli, monkeypatch, command):
    line = next(line for line in page_of(cli, monkeypatch, 80).splitlines() if line.split()[:1] == [command])
    assert line.split(maxsplit=1)[1] in page_of(cli, monkeypatch, 80, command)


def test_code_and_defaults_stay_on_one_line(cli, monkeypatch):
    page = page_of(cli, monkeypatch, 40, "check")
    assert "`# archcli: ignore[FFN001]`" in page
    assert "[default: warning]" in page
    assert "x>=1" not in page


@pytest.mark.parametrize(
    ("command", "args", "message"),
    [
        (
            "check",
            ("gpt2", "--tp", "0"),
            "Invalid value for '--tp': tp must be a whole number above 0, not 0",
        ),
        ("schema", ("--of", "x"), "Invalid value for '--of': 'x' is not one of 'yaml', 'profile'"),
    ],
)
def test_a_wrong_argument_is_an_error_like_any_other(cli, command, args, message):
    shown = f"error: {message}\n  = help: archcli {command} -h describes the arguments\n"
    assert cli(command, *args) == (2, "", shown)


# what is typed: (the error, the hint before the help page)
NEARLY = {
    "params": ("Missing argument 'MODEL'", "such as archcli params llama-3.1-8b; "),
    "predict gpt2": ("Missing option '--device'", "such as archcli predict llama-3.1-8b --device rtx-4090; "),
    "list llama": ("Got unexpected extra argument(s) (llama)", "did you mean --where series=llama?"),
    "scale llama-3.1-8b 3B": ("Got unexpected extra argument(s) (3B)", "did you mean --params 3B?"),
    "memory gpt2 h100": ("Got unexpected extra argument(s) (h100)", "did you mean --device h100?"),
    "memory gpt2 24GB": ("Got unexpected extra argument(s) (24GB)", "did you mean --device 24GB?"),
    "kvcache gpt2 8k": ("Got unexpected extra argument(s) (8k)", "did you mean --context 8k?"),
    "flops gpt2 8k": ("Got unexpected extra argument(s) (8k)", "did you mean --seq-len 8k?"),
    "memory gpt2 --qq 3": ("archcli memory has no option --qq", "archcli memory -h describes"),
    "params gpt2 -c 3": ("archcli params has no option -c", "archcli params -h describes"),
    "memory 4090": ("no file or preset '4090'", "'4090' is a device: MODEL stands before it"),
    "params gpt-4": ("no file or preset 'gpt-4'", "`archcli list` names the presets"),
    "params llama": ("no file or preset 'llama'", "did you mean llama-4-"),
}


@every_row("typed", NEARLY)
def test_a_hint_says_what_to_type(cli, typed):
    error, hint = NEARLY[typed]
    done = cli(*typed.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {error}\n  = help: {hint}")


def test_help_is_a_command_as_well(cli):
    assert cli("help") == cli("-h")
    assert cli("help", "params") == cli("params", "-h")


# option: (of other tools, those of archcli that say the same)
OTHER_TOOLS = {
    "--ctx-size": "--context",
    "--n-ctx": "--context",
    "--num_ctx": "--context",
    "--max-model-len": "--context",
    "--max-seq-len": "--seq-len",
    "--gpu": "--device",
    "--num-gpus": "--device",
    "--quant": "--dtype",
    "--tensor-parallel-size": "--tp",
    "--tp-size": "--tp",
    "--batch": "--batch-size",
    "--bs": "--batch-size",
    "--kv-cache-dtype": "--kv-dtype",
    "--cache-type-k": "--kv-dtype",
    "--ram": "--memory",
    "--gpu-memory-utilization": "--utilization",
    "--n-gpu-layers": "--offload",
}


@every_row("option", OTHER_TOOLS)
def test_an_option_of_another_tool_leads_to_ours(option):
    known = [*OTHER_TOOLS.values(), "--cp", "--recompute", "--source-len", "--output", "--plot", "--fit"]
    assert near_option(option, known) == f"did you mean {OTHER_TOOLS[option]}?"


def test_a_letter_is_near_to_no_other_option():
    assert near_option("-c", ["--cp", "--tp", "--json"]) == ""
    assert near_option("-c", ["--cp", "--context"]) == "did you mean --context?"
    assert near_option("--context", ["--recompute", "--cp"]) == ""


SYNONYMS = {
    "kvcache gpt2 -s 512": "kvcache gpt2 -c 512",
    "kvcache gpt2 --seq-len=512": "kvcache gpt2 --context=512",
    "flops gpt2 -c 512": "flops gpt2 -s 512",
    "flops gpt2 -c512 --json": "flops gpt2 -s512 --json",
    "show gpt2 --context 512": "show gpt2 --seq-len 512",
    "memory gpt2 --context 512": "memory gpt2 --seq-len 512",
}


@every_row("typed", SYNONYMS)
def test_context_and_seq_len_are_taken_for_each_other(cli, typed):
    done = cli(*typed.split())
    assert done.code == 0
    assert done == cli(*SYNONYMS[typed].split())
    # a command that has both keeps them apart
    assert cli("compare", "gpt2", "gpt2", "-c", "64", "-s", "32", "--json").out.count('"context": 64') == 1


def test_every_command_has_three_examples():
    assert {*EXAMPLES} == {*COMMANDS}
    assert {len(examples) for examples in EXAMPLES.values()} == {3}


LINES = [line for examples in EXAMPLES.values() for line in examples if line.startswith("archcli ")]
ELSEWHERE = {"mcp", "profile", "verify", "report", "draw", "plot", "summary", "check", "fit"}
"""Commands whose examples need a file, torch, or seconds each."""


@pytest.mark.long
@every_row("line", [line for line in LINES if " -- " not in line])
def test_an_example_has_options_that_there_are(line):
    _, name, *rest = shlex.split(line)
    typer.main.get_command(application([name])).commands[name].make_context(name, rest)


@pytest.mark.long
@pytest.mark.parametrize("line", [line for line in LINES if line.split()[1] not in ELSEWHERE])
def test_an_example_is_answered(cli, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text((CONFIGS / "llama-3.1-8b.json").read_text())
    done = cli(*shlex.split(line)[1:])
    assert (done.code, done.err.count("error")) == (0, 0)


def test_a_long_list_of_options_stands_under_headings(cli, monkeypatch):
    page = page_of(cli, monkeypatch, 80, "memory")
    titles = re.findall(r"^(\S.*):$", page, re.MULTILINE)
    assert titles == ["Examples", "Arguments", "Options", *HEADINGS]
    assert re.findall(r"^(\S.*):$", page_of(cli, monkeypatch, 80, "rules"), re.MULTILINE) == [
        "Examples",
        "Options",
    ]


def test_every_parameter_below_a_heading_is_one_of_a_command():
    commands = typer.main.get_command(every_command()).commands.values()
    known = {param.name for command in commands for param in command.params}
    assert {name for names in HEADINGS.values() for name in names} <= known
