"""Manners: exit codes, errors, files. What the commands count is tested in tests/measure."""

import csv
import json
import re
import shutil
import sys

import pytest
import typer

from archcli.commands.line.application import every_command
from archcli.commands.line.names import COMMANDS, COMMANDS_MEANT, OPTIONS_MEANT
from archcli.errors import install
from pages import DOCS
from quick_commands import QUICK
from table import every_row, sampled_rows

KEYS = {"schema_version", "command", "model", "inputs", "convention", "totals", "rows", "notes"}
TOTALS = {
    "params": {
        "params",
        "active_params",
        "active_params_excl_input_embedding",
        "embedding_params",
        "head_params",
        "non_embedding_params",
        "by_group",
    },
    "flops": {"matmul_flops", "other_flops", "macs", "by_component"},
    "kvcache": {"elements", "cross_elements", "bytes", "bytes_per_token"},
    "list": {"models"},
    "survey": {"models", "spread"},
    "compare": {"models", "differences"},
    "show": {"params", "rows"},
}


@sampled_rows("command", TOTALS, 4)
def test_json_has_the_agreed_names(cli, command):
    document = json.loads(cli(*QUICK[command], "--json").out)
    assert set(document) == KEYS
    assert document["command"] == command
    assert TOTALS[command] <= set(document["totals"])
    assert all(isinstance(document["totals"][key], int | dict) for key in TOTALS[command])


def test_json_names_the_model_and_what_was_asked(cli):
    document = json.loads(cli("flops", "gpt2", "--set", "d_ff=1k", "-s", "1K", "--format", "json").out)
    assert document["model"] == {"name": "gpt2", "source": "preset gpt2"}
    assert document["inputs"]["seq_len"] == 1024
    assert document["inputs"]["set"] == ["d_ff=1k"]


@pytest.mark.long
@every_row(
    ("args", "said"),
    [
        (("params",), "Missing argument 'MODEL'"),
        (("parms", "gpt2"), "no command 'parms'\n  = help: did you mean params?"),
        (("kv", "gpt2"), "no command 'kv'\n  = help: did you mean kvcache?"),
        (("mem", "gpt2"), "did you mean memory?"),
        (("vram", "gpt2"), "did you mean memory?"),
        (("qqq", "gpt2"), "no command 'qqq'\n  = help: archcli -h lists them"),
        (("params", "gpt2", "--jsn"), "archcli params has no option --jsn\n  = help: did you mean --json"),
        (("params", "gpt2", "--outp=x"), "has no option --outp\n  = help: did you mean --output?"),
        (("params", "gpt2", "--qqq"), "has no option --qqq\n  = help: archcli params -h describes"),
        (("kvcache", "gpt2", "--gpu", "h100"), "has no option --gpu\n  = help: did you mean --device?"),
        (("kvcache", "gpt2", "--ctx", "3"), "did you mean --context?"),
        (("flops", "gpt2", "--max_model_len", "3"), "did you mean --seq-len?"),
        (("memory", "gpt2", "--tensor-parallel-size=2"), "did you mean --tp?"),
        (("params", "gpt2", "--format", "xml"), "'--format': 'xml' is not one of"),
        (("params", "gpt2", "--depth", "-1"), "--depth"),
        (("params", "gpt2", "--dtype", "fp7"), "unknown dtype 'fp7'"),
        (("flops", "gpt2", "-s", "0"), "seq_len must be a whole number above 0, not 0"),
        (("flops", "gpt2", "-b", "-3"), "-3"),
        (("flops", "gpt2", "--past", "-1"), "-1"),
        (("flops", "gpt2", "-s", "1.5"), "1.5"),
        (("flops", "gpt2", "-s", "many"), "'many' is not a whole number"),
        (("flops", "gpt2", "--phase", "warp"), "'warp' is not one of"),
        (("flops", "gpt2", "--phase", "train", "--past", "3"), "training starts from an empty cache"),
        (("kvcache", "gpt2", "--memory", "80K"), "write KiB"),
        (("params", "gtp2"), "did you mean gpt2?"),
        (("params", "gpt2", "--set", "d_fff=3"), "d_fff"),
        (("params", "no.yaml"), "no file 'no.yaml'"),
        (("survey", "--no-presets"), "no model to survey"),
        (("survey", "--columns", "d_ff,parms"), "unknown column 'parms'"),
        (("list", "--where", "__import__('os').system('ls') > 1"), "'__import__' is no name of a figure"),
        (("list", "--where", f"{'(' * 10_000}params > 1"), "longer than 1,000 characters"),
        (("devices", "--where", "memory_bytes/(tdp_w-tdp_w) > 1"), "divides by zero"),
        (("survey", "--where", "params"), "--where: error: 'params' is not a condition"),
        (("survey", "--sort", "parms"), "did you mean params?"),
        (("survey", "--by", "month"), "'month' is not one of"),
        (("compare",), "compare needs two models or more"),
        (("compare", "gpt2"), "compare needs two models or more"),
        (("compare", "gpt2", "gtp2"), "did you mean gpt2?"),
        (("compare", "gpt2", "gpt2", "--set", "3:d_ff=4"), "there is no model 3"),
        (("compare", "gpt2", "gpt2", "--set", f"{'1' * 5000}:d_ff=4"), "there is no model 111111111"),
        (("compare", "gpt2", "gpt2", "--set", "0:d_ff=4"), "they count from 1 to 2"),
        (("compare", "gpt2", "gpt2", "--set", "2:d_fff=4"), "did you mean d_ff?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_clear_error_and_exit_code_2(cli, args, said):
    done = cli(*args)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert "Traceback" not in done.err


def test_all_problems_of_a_file_are_told_at_once(cli, tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("vocab_size: 0\nd_model: '[red]x'\nnorm: rmsnorm\ngroups: []\n")
    done = cli("params", path)
    assert done.code == 2
    assert len(re.findall(r"bad\.yaml:\d+:\d+: error:", done.err)) >= 3


def test_what_is_no_users_mistake_is_not_hidden(cli, monkeypatch):
    monkeypatch.setattr("archcli.api.params.count", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cli("params", "gpt2")


@pytest.mark.long
@every_row("command", COMMANDS)
@every_row("flag", ["-h", "--help"])
def test_every_command_explains_itself(cli, command, flag):
    done = cli(command, flag)
    assert done.code == 0
    assert f"archcli {command}" in done.out


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_all_commands(cli, flag):
    done = cli(flag)
    assert done.code == 0
    assert all(re.search(rf"^  {command} +\S", done.out, re.MULTILINE) for command in COMMANDS)


def test_archcli_alone_shows_help(cli):
    done = cli()
    assert (done.code, done.err) == (0, "")
    assert done.out == cli("--help").out


MISSING = {
    "sympy": (("explain", "gpt2"), "pip install sympy numpy"),
    "numpy": (("sweep", "gpt2", "--vary", "d_ff=8,16"), "pip install sympy numpy"),
    "mcp": (("mcp",), "pip install 'mcp>=2,<3'"),
    "resvg_py": (("plot", "profile.json", "-o", "p.png"), "write an .svg or .html, or pip install resvg-py"),
    "huggingface_hub": (
        ("params", "gpt2", "--against", "org/name"),
        "give the path of a folder, or pip install huggingface_hub",
    ),
}


@pytest.mark.parametrize(("package", "case"), MISSING.items(), ids=MISSING)
def test_a_missing_package_is_named_with_the_command_to_repeat(package, case, cli, tmp_path, monkeypatch):
    args, hint = case
    shutil.copy(DOCS / "pictures" / "profile.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setitem(sys.modules, package, None)
    done = cli(*args)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1] == f"  = help: {hint}, then: archcli {' '.join(args)}"


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["/opt/bin/archcli", "explain", "my model"], "pip install sympy, then: archcli explain 'my model'"),
        (["/src/archcli/__main__.py", "explain"], "pip install sympy, then: archcli explain"),
        (["/src/notebook.py", "explain"], "pip install sympy"),
        (["/src/other/__main__.py", "explain"], "pip install sympy"),
        ([], "pip install sympy"),
    ],
)
def test_a_command_is_repeated_where_one_was_typed(argv, hint, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    assert install("sympy") == hint


def test_the_version(cli):
    done = cli("--version")
    own = r"archcli \d+\.\d+\.\d+\S* \(Python \d+\.\d+\.\d+\S*, torch \S+, transformers \S+\)\n"
    assert (done.code, re.fullmatch(own, done.out) is not None) == (0, True)


def test_the_version_names_what_is_installed(cli, monkeypatch):
    monkeypatch.setattr("archcli.commands.line.application.BESIDE", ("torch", "nowhere-installed"))
    assert re.search(r"\(Python \S+, torch \S+\)\n$", cli("--version").out)


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", [name for name in QUICK if name != "schema"])
@pytest.mark.parametrize("suffix", ["json", "csv", "md", "txt"])
def test_a_file_is_in_the_format_of_its_suffix(cli, tmp_path, command, suffix):
    path = tmp_path / f"out.{suffix}"
    assert cli(*QUICK[command], "-o", path) == (0, "", "")
    form = {"txt": "plain"}.get(suffix, suffix)
    assert path.read_text() == cli(*QUICK[command], "--format", form).out


CONTRADICTIONS = [
    (("params", "gpt2", "--json", "--format", "csv"), "--json and --format csv contradict each other"),
    (("params", "gpt2", "--json", "-o", "x.csv"), "--json and -o x.csv contradict each other"),
    (("params", "gpt2", "--format", "md", "-o", "x.csv"), "--format md and -o x.csv contradict each other"),
    (("params", "gpt2", "-o", "x.yaml"), "x.yaml: .yaml names no format"),
    (("flops", "gpt2", "-o", "x.unknown"), "x.unknown: .unknown names no format"),
    (("rules", "-o", "x.yaml"), "x.yaml: .yaml names no format"),
    (("rule", "FFN001", "-o", "x.csv"), "x.csv: .csv names no format"),
    (("rule", "FFN001", "--json", "-o", "x.md"), "--json and -o x.md contradict each other"),
    (("schema", "-o", "x.yaml"), "x.yaml: .yaml names no format"),
    (("show", "gpt2", "--format", "yaml", "-o", "x.json"), "--format yaml and -o x.json contradict"),
    (("show", "gpt2", "--json", "-o", "x.yaml"), "--json and -o x.yaml contradict"),
    (("check", "gpt2", "-o", "x.yaml"), "x.yaml: .yaml names no format"),
    (("check", "gpt2", "--format", "full", "-o", "x.json"), "--format full and -o x.json contradict"),
    (("check", "gpt2", "--suggest", "--json"), "--suggest and --json contradict each other"),
    (("check", "gpt2", "--suggest", "--statistics"), "--suggest and --statistics contradict each other"),
    (("check", "gpt2", "--suggest", "-o", "x.json"), "x.json: .json names no format"),
    (("check", "gpt2", "--statistics", "-o", "x.sarif"), "--statistics and -o x.sarif contradict each other"),
    (("verify", "gpt2", "--json", "-o", "x.md"), "--json and -o x.md contradict each other"),
    (("profile", "gpt2", "--json", "-o", "x.md"), "--json and -o x.md contradict each other"),
    (("profile", "gpt2", "-o", "missing/x.json"), "cannot write missing/x.json: No such file or directory"),
    (("profile", "gpt2", "--plot", "missing/x.svg"), "cannot write missing/x.svg: No such file or directory"),
    (("profile", "gpt2", "--plot", "-"), "standard output would get two of the report, the picture and the"),
    (("profile", "gpt2", "--trace", "t.json", "-o", "./t.json"), "t.json would get two of the report"),
]


@pytest.mark.sample(7, whole=True)
@pytest.mark.parametrize(("args", "said"), CONTRADICTIONS, ids=map(str, range(len(CONTRADICTIONS))))
def test_options_that_contradict_each_other_are_told_before_anything_is_done(
    cli, args, said, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before = "torch" in sys.modules
    done = cli(*args)
    assert (done.code, done.out, "torch" in sys.modules) == (2, "", before)
    assert done.err.startswith(f"error: {said}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize(
    ("args", "start"),
    [
        (("show", "gpt2", "-o", "x.yaml"), "name: gpt2"),
        (("show", "gpt2", "-o", "x.yml"), "name: gpt2"),
        (("rule", "FFN001", "-o", "x.json"), "{"),
        (("rule", "FFN001", "-o", "x.md"), "#"),
        (("schema", "-o", "x.md"), "| class |"),
        (("schema", "-o", "x.json"), "{"),
        (("check", "gpt2", "-o", "x.json"), "{"),
        (("check", "gpt2", "-o", "x.sarif"), '{\n  "$schema"'),
        (("check", "gpt2", "--format", "sarif", "-o", "x.json"), '{\n  "$schema"'),
        (("check", "gpt2", "-o", "x.csv"), "model,code"),
        (("check", "gpt2", "--statistics", "-o", "x.csv"), "code,severity,findings"),
        (("check", "gpt2", "--suggest", "-o", "x.patch"), "# preset gpt2: "),
        (("params", "gpt2", "--format", "csv", "-o", "x.tsv"), "path"),
        (("params", "gpt2", "--json", "-o", "x.txt"), "{"),
        (("params", "gpt2", "--json", "-o", "x"), "{"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_suffix_names_the_format_of_its_command(cli, args, start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli(*args)
    assert (done.code in {0, 1}, done.out, done.err) == (True, "", "")
    [file] = tmp_path.iterdir()
    assert file.read_text().startswith(start)


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("command", QUICK)
@pytest.mark.parametrize("where", ["missing/out.json", "", "/dev/full", "/proc/nothing/out"])
def test_a_place_one_cannot_write_is_one_error(cli, tmp_path, command, where):
    done = cli(*QUICK[command], "-o", tmp_path / where)
    assert (done.code, done.out) == (2, "")
    assert re.match(r"error: cannot write .*: .+", done.err)
    assert list(tmp_path.iterdir()) == []


def test_several_models_tell_all_their_problems(cli, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("vocab_size: 0\nd_model: 8\nnorm: rmsnorm\ngroups: []\n")
    for command in ("survey", "compare"):
        done = cli(command, tmp_path / "one.yaml", tmp_path / "two.yaml", "nowhere")
        assert (done.code, done.out) == (2, "")
        assert all(name in done.err for name in ("one.yaml:1:", "two.yaml:1:", "'nowhere'"))


def test_a_model_of_several_is_changed_by_its_number(cli):
    done = cli("compare", "gpt2", "gpt2", "--set", "2:n_layers=24", "--set", "d_ff=1k", "--json")
    rows = {row["key"]: row for row in json.loads(done.out)["rows"]}
    assert (rows["name"]["value_1"], rows["name"]["value_2"]) == ("gpt2 #1", "gpt2 #2")
    assert (rows["groups.0.n_layers"]["value_1"], rows["groups.0.n_layers"]["value_2"]) == ("12", "24")
    assert (rows["ffn"]["value_1"], rows["ffn"]["ratio_2"]) == (12 * (2 * 768 * 1000 + 1000 + 768), 2.0)


def test_a_survey_is_of_the_presets_and_what_is_given(cli, tmp_path):
    (tmp_path / "my, own.yaml").write_text(
        cli("show", "gpt2", "--format", "yaml").out.replace("name: gpt2\n", "")
    )
    names = [
        row["name"]
        for row in json.loads(cli("survey", "--all", tmp_path / "my, own.yaml", "gpt2", "--json").out)["rows"]
    ]
    assert names[:2] == ["my, own", "gpt2"]
    assert sorted(names[1:]) == sorted(json_names(cli("list", "--json").out))
    out = cli("survey", tmp_path / "my, own.yaml", "--no-presets", "--format", "csv").out
    assert [row["name"] for row in csv.DictReader(out.splitlines())] == ["my, own"]


def json_names(out):
    return [row["name"] for row in json.loads(out)["rows"]]


WITHOUT_ROWS = {
    "kvcache": (("kvcache", "bert-base-uncased"), ("kvcache", "gpt2")),
    "devices": (("devices", "--where", "vendor=nobody"), ("devices",)),
    "memory": (("memory", "gpt2", "--phase", "forward"), ("memory", "gpt2")),
    "sweep": (
        ("sweep", "gpt2", "--vary", "n_layers=2", "--where", "params<1"),
        ("sweep", "gpt2", "--vary", "n_layers=2"),
    ),
    "explain": (("explain", "bert-base-uncased", "kvcache"), ("explain", "gpt2", "kvcache")),
    "check": (("check", "gpt2", "--select", "FFN001"), ("check", "gpt2", "--select", "FFN", "--exit-zero")),
    "survey": (("survey", "--where", "params<1"), ("survey", "--where", "name=gpt2")),
}


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize(("without", "rows"), WITHOUT_ROWS.values(), ids=WITHOUT_ROWS)
def test_csv_without_rows_has_the_columns_that_it_has_with_rows(cli, without, rows):
    header, *lines = cli(*without, "--format", "csv").out.splitlines()
    assert lines == []
    assert header == cli(*rows, "--format", "csv").out.splitlines()[0]


@pytest.mark.long
def test_a_rule_is_plain_text_in_a_pipe_and_markdown_in_its_file(cli, tmp_path):
    """Of every rule: no sign of a heading, of emphasis or of a fence, and not a word less."""
    for code in [row["code"] for row in json.loads(cli("rules", "--json").out)["rows"]]:
        plain, file = cli("rule", code).out, tmp_path / f"{code}.md"
        assert cli("rule", code, "-o", file).code == 0
        markdown = file.read_text()
        assert markdown.startswith(f"## {code}: ")
        assert plain.startswith(f"{code}: ")
        assert not re.search(r"```|\*\*|(^|\s)\*\w", plain)
        words = re.sub(r"^(## |```\w*$)", "", markdown, flags=re.MULTILINE)
        assert plain.replace("*", "").split() == words.replace("*", "").split()


def test_names_of_other_tools_stand_for_commands_and_options_that_there_are():
    assert {*COMMANDS_MEANT.values()} <= {*COMMANDS}
    assert not {*COMMANDS_MEANT} & {*COMMANDS}
    commands = typer.main.get_command(every_command()).commands.values()
    options = {name for command in commands for param in command.params for name in param.opts}
    assert {option for meant in OPTIONS_MEANT.values() for option in meant} <= options


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    [
        ("memory", "llama-3.1-8b", "--phase", "serve", "--device", "l4", "-s", "128Ki"),
        ("memory", "llama-3.1-8b", "--device", "l4"),
        ("predict", "gpt2", "--device", "h100-sxm", "--phase", "train", "--tokens", "1e12"),
        ("predict", "gpt2", "--device", "h100-sxm", "--price-per-hour", "2", "--curve", "batch"),
        ("scale", "llama-3.1-8b", "--params", "3B", "--device", "8xh100-sxm"),
        ("kvcache", "llama-3.1-8b", "--device", "h100-sxm"),
        ("kvcache", "zamba2-7b"),
    ],
)
def test_no_table_becomes_a_list_on_60_columns(cli, monkeypatch, command):
    rules = []
    for columns in (200, 60):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = cli(*command, "--format", "table").out.splitlines()
        assert max(map(len, lines)) <= columns
        rules.append(sum(set(line) == {"─"} for line in lines))
    assert rules[0] == rules[1] > 0
