"""What every command prints, letter by letter, piped and as JSON.

Of three also on terminals of 80 and 40 columns and in every format.

`pytest -n0 --renew tests/commands/test_golden.py` writes what is printed now, to be read in the diff.
"""

import json
from difflib import unified_diff
from itertools import islice
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = {
    "params-dense": ("params", "llama-3.1-8b"),
    "params-moe": ("params", "deepseek-v3", "--depth", "4", "--dtype", "fp8"),
    "params-set": ("params", "gpt2", "--set", "n_layers=24", "--set", "d_model=1024", "--set", "n_heads=16"),
    "flops-forward": ("flops", "qwen3-30b-a3b"),
    "flops-decode": (
        "flops",
        "deepseek-v3",
        "--phase",
        "decode",
        "--past",
        "8000",
        "--mla",
        "absorbed",
        "--mask",
        "dense",
    ),
    "flops-train": ("flops", "gpt2", "--phase", "train", "-b", "8", "-s", "1024", "--macs"),
    "kvcache-window": ("kvcache", "gemma-2-9b", "--context", "32K", "--memory", "80GiB"),
    "kvcache-latent": ("kvcache", "deepseek-v3", "-b", "4", "--dtype", "fp8"),
    "memory-train": ("memory", "llama-3.1-8b", "--device", "h100-sxm"),
    "memory-serve": ("memory", "gpt2", "--phase", "serve", "--memory", "2GiB", "--alternatives"),
    "list": ("list",),
    "survey": ("survey", "--no-presets", "gpt2", "deepseek-v3", "gemma-2-9b", "llama-3.1-8b"),
    "survey-columns": (
        "survey",
        "--no-presets",
        "gpt2",
        "deepseek-v3",
        "--columns",
        "d_ff_ratio,position",
        "--sort",
        "params:desc",
    ),
    "survey-by": (
        "survey",
        "--no-presets",
        "gpt2",
        "gemma-2b",
        "llama-3.1-8b",
        "--by",
        "series",
        "--columns",
        "params,head_ratio",
    ),
    "compare-set": ("compare", "llama-3.1-8b", "llama-3.1-8b", "--set", "2:n_kv_heads=32", "-s", "8000"),
    "compare-layouts": (
        "compare",
        "gemma-2-9b",
        "deepseek-v3",
        "mixtral-8x7b",
        "--mla",
        "absorbed",
        "--dtype",
        "fp8",
    ),
    "compare-many": (
        "compare",
        "gpt2",
        "llama-3.1-8b",
        "falcon-7b",
        "qwen3-0.6b",
        "-s",
        "1024",
        "--past",
        "512",
    ),
    "list-where": ("list", "--where", "series=llama", "--where", "params > 10B", "--sort", "released:desc"),
    "show": ("show", "gpt2", "-s", "1024"),
    "explain": ("explain", "gpt2", "--steps", "--approx"),
    "explain-latent": ("explain", "deepseek-v3"),
    "explain-decode": (
        *("explain", "gemma-3-1b", "flops", "--phase", "decode", "--past", "1000"),
        *("--symbols", "d_model,past", "--at", "past"),
    ),
    "rules": ("rules",),
}
CHECKED = ("check", "gemma-2-9b", "gpt2", "mixtral-8x7b", "--select", "ATT,HWD,NRM,POS", "--exit-zero")
FINDINGS = {
    "full": (),
    "full-80": (),
    "full-40": (),
    **{form: ("--format", form) for form in ("concise", "json", "github", "sarif", "csv", "md")},
    "statistics": ("--statistics",),
    "suggest": ("--suggest",),
}
FORMS = {"plain": None, "json": None, "table-80": 80, "table-40": 40, "md": None, "csv": None}
IN_ALL = {"params-moe", "survey-by", "compare-layouts"}
CASES = [(name, form) for name in COMMANDS for form in FORMS if name in IN_ALL or form in {"plain", "json"}]


MOST_LINES = 60


def compare(path, text, renew):
    if renew:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text()
    if text != expected:
        # pytest compares long texts letter by letter, for minutes
        lines = unified_diff(expected.splitlines(), text.splitlines(), path.name, "printed", lineterm="")
        raise AssertionError("\n".join(islice(lines, MOST_LINES)))


@pytest.mark.parametrize(("name", "form"), CASES, ids=map("-".join, CASES))
def test_a_command_prints_what_it_printed(cli, monkeypatch, renew, name, form):
    if FORMS[form]:
        monkeypatch.setenv("COLUMNS", str(FORMS[form]))
    done = cli(*COMMANDS[name], "--format", form.split("-")[0])
    assert (done.code, done.err) == (0, "")
    compare(GOLDEN / f"{name}.{form}", done.out, renew)
    if FORMS[form]:
        assert max(map(len, done.out.splitlines())) <= FORMS[form]


@pytest.mark.parametrize("name", sorted(IN_ALL))
def test_piped_is_plain(cli, name):
    assert cli(*COMMANDS[name]).out == (GOLDEN / f"{name}.plain").read_text()


@pytest.mark.parametrize("form", FINDINGS)
def test_check_prints_what_it_printed(cli, monkeypatch, renew, form):
    width = form.partition("-")[2]
    if width:
        monkeypatch.setenv("COLUMNS", width)
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    done = cli(*CHECKED, *FINDINGS[form])
    assert (done.code, done.err) == (0, "")
    compare(GOLDEN / f"check.{form}", done.out, renew)


def test_the_schema_of_the_presets_is_the_one_printed(cli, renew):
    """Presets name it in their first line, for editors."""
    done = cli("schema")
    compare(Path(__file__).parents[2] / "presets" / "schema.json", done.out, renew)
    assert json.loads(done.out)


@pytest.mark.parametrize("form", ["plain", "md", "csv"])
def test_the_table_of_keys(cli, renew, form):
    compare(GOLDEN / f"schema.{form}", cli("schema", "--format", form).out, renew)


@pytest.mark.parametrize("name", ["gpt2", "gemma-2-9b", "deepseek-v3"])
def test_show_writes_yaml(cli, renew, name):
    compare(GOLDEN / f"show-{name}.yaml", cli("show", name, "--format", "yaml").out, renew)
