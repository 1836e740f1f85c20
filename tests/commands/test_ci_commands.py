"""Names from files are no commands to a CI runner and no formulas to a spreadsheet.

GitHub's runner obeys a line that begins with `::`, after blanks, and `##[` anywhere in a line.
"""

import csv
import io
import json
import re

import pytest

from archcli.measure.report import Report
from archcli.render.data import as_csv

NAMES = ["::stop-commands::x", "  ::add-mask::x", "a ##[stop-commands]x", "##[add-mask]x"]
COMMAND = re.compile(r"^\s*::[\w-]+.*::|##\[", re.MULTILINE)
MODEL = """\
name: {name}
series: {name}
source: {name}
vocab_size: 32001
d_model: 512
norm: rmsnorm
groups:
  - n_layers: 2
    layer:
      kind: pre_norm
      attention: {{kind: mha, n_heads: 8, position: rope}}
      ffn: {{kind: glu, d_ff: 1400}}
"""
COMMANDS = [
    ("params",),
    ("flops",),
    ("kvcache",),
    ("show",),
    ("survey", "--no-presets"),
    ("compare", "gpt2"),
    ("check",),
]
FORMATS = ["table", "plain", "md", "csv", "json"]


@pytest.fixture
def named(tmp_path):
    """A file whose model has a name."""

    def write(name):
        path = tmp_path / "m.yaml"
        path.write_text(MODEL.format(name=json.dumps(name)))
        return path

    return write


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_no_name_is_a_command(cli, named, args, name):
    forms = ["full", "concise", "sarif", "md", "csv", "json"] if args == ("check",) else FORMATS
    for form in forms:
        done = cli(*args, named(name), "--format", form)
        assert done.code in {0, 1}
        assert not COMMAND.search(done.out), (form, COMMAND.search(done.out))
        if form in {"json", "sarif"}:
            json.loads(done.out)


@pytest.mark.parametrize("name", NAMES)
def test_json_says_the_name_as_it_is(cli, named, name):
    assert json.loads(cli("params", named(name), "--json").out)["model"]["name"] == name


def test_findings_for_the_runner_are_its_commands(cli, tmp_path, monkeypatch, named):
    monkeypatch.chdir(tmp_path)
    named("##[stop-commands]x")
    out = cli("check", "m.yaml", "--format", "github").out
    assert all(
        line.startswith(("::warning file=m.yaml,", "::notice file=m.yaml,")) for line in out.splitlines()
    )


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("::stop-commands::x.yaml", "d_model: ["),
        ("##[stop-commands]x.yaml", "d_model: ["),
        ("m.yaml", "  ::stop-commands::x"),
        ("m.yaml", "d_model: {a: ##[add-mask]x"),
    ],
)
def test_no_error_is_a_command(cli, tmp_path, monkeypatch, file, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(text)
    done = cli("params", file)
    assert (done.code, done.out) == (2, "")
    assert not COMMAND.search(done.err)


def test_no_wrong_option_is_a_command(cli):
    done = cli("params", "gpt2", "--x\n::stop-commands::y")
    assert done.code == 2
    assert not COMMAND.search(done.err)


FORMULAS = ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "=HYPERLINK(1)"]


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("name", FORMULAS)
def test_no_cell_is_a_formula(cli, named, name):
    out = cli("survey", "--no-presets", named("x"), "--format", "csv").out
    plain = next(csv.DictReader(out.splitlines()))
    out = cli("survey", "--no-presets", named(name), "--format", "csv").out
    [row] = csv.DictReader(out.splitlines(keepends=True))
    assert row["series"] == f"'{name}"
    assert {key for key in row if row[key] != plain[key]} <= {"name", "series", "source"}


@pytest.mark.parametrize("sign", ["\t", "\n"])
def test_no_cell_begins_with_a_sign_that_a_spreadsheet_skips(sign):
    out = as_csv(Report("x", {}, {}, "", {}, [{"a": f"{sign}=1"}, {"a": f"x{sign}::stop-commands::y"}]))
    assert next(csv.DictReader(io.StringIO(out, newline="")))["a"] == f"'{sign}=1"
    assert not COMMAND.search(out)


def test_numbers_stay_numbers():
    rows = [{"a": -1, "b": -0.5, "c": "-", "d": "-12", "e": "+3.5", "f": True, "g": None}]
    assert as_csv(Report("x", {}, {}, "", {}, rows)) == "a,b,c,d,e,f,g\n-1,-0.5,-,-12,+3.5,True,\n"
