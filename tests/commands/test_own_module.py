"""Modules of one's own on the command line: what runs, what does not, and what is said."""

import json
import sys

import pytest

from archcli.commands.line.application import application, exit_code

MODULE = """
import torch
from torch import nn

def make():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (torch.zeros(3, 4),)

def needs(size):
    return nn.Linear(size, size)

def breaks():
    raise ValueError("no such size")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Embedding(10, 4)

    def forward(self, ids, mask=None):
        return self.inner(ids)

net = Net()
number = 3
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mynets.py").write_text(MODULE)
    (tmp_path / "mistral.py").write_text("open('it_ran', 'w')\n")
    (tmp_path / "broken.py").write_text("import mynets\nmynets.breaks()\n")
    yield tmp_path
    for name in ("mynets", "broken"):
        sys.modules.pop(name, None)


@pytest.fixture
def run(folder, monkeypatch, capsys):
    """Run a command in this process, which has torch already: (exit code, output, errors)."""
    monkeypatch.chdir(folder)

    def run(*words):
        try:
            code = exit_code(application(words), [*words])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


@pytest.mark.torch
def test_summary_has_rows_and_totals(archcli, folder):
    done = archcli("summary", "py:mynets:make", "--json", cwd=folder)
    report = json.loads(done.stdout)
    assert report["model"] == {"name": "Sequential", "source": "mynets:make"}
    assert report["totals"]["params"] == 4 * 8 + 8 + 8 * 2 + 2
    assert report["totals"]["matmul_flops"] == 2 * 3 * (4 * 8 + 8 * 2)
    assert [row["path"] for row in report["rows"]] == ["0", "1", "2"]
    assert {*report["rows"][0]} == {
        *("path", "op", "group", "times", "inputs", "outputs", "weights", "params", "flops"),
    }


@pytest.mark.torch
def test_a_class_and_an_instance_are_modules_too(run):
    asked = ("memory", "py:mynets:Net", "--input", "ids=int64[2,5]", "--device", "rtx-4090", "--json")
    code, printed, _ = run(*asked)
    assert (code, json.loads(printed)["totals"]["fits"]) == (0, True)
    code, printed, _ = run("show", "py:mynets:net", "--input", "int64[2,5]")
    assert (code, "[2, 5, 4]" in printed) == (0, True)


@pytest.mark.torch
def test_a_profile_places_seconds_at_modules(run):
    code, printed, _ = run("profile", "py:mynets:make", "--phase", "train", "--pairs", "2", "--json")
    report = json.loads(printed)
    assert code == 0
    assert {row["path"] for row in report["rows"]} >= {"0", "1", "2"}
    assert sum(row["share"] for row in report["rows"]) == pytest.approx(1)
    assert sum(report["totals"]["by_class"].values()) == pytest.approx(1)
    # the input has no gradient
    assert report["totals"]["matmul_flops"] == 2 * 3 * (2 * 4 * 8 + 3 * 8 * 2)


REFUSED = {
    ("summary", "mynets:make"): "no module 'mynets' to import",
    ("summary", "py:mynets:mak"): "did you mean make?",
    ("summary", "py:mynets:number"): "nothing that makes a module",
    ("summary", "py:mynets:needs"): "missing a required argument: 'size'",
    ("summary", "py:mynets:breaks"): "calling mynets:breaks raises ValueError: no such size",
    ("params", "py:broken:x"): "importing broken raises ValueError: no such size",
    ("summary", "py:mynets:net", "--input", "idz=int64[2]"): "did you mean ids?",
    ("summary", "py:mynets:net", "--input", "ids=int64"): "is no input",
    ("summary", "py:mynets:net", "--input", "ids=int65[2]"): "is no dtype of torch",
    ("summary", "py:mynets:net"): "missing a required argument: 'ids'",
    ("summary", "gpt2"): "names no module of yours",
    ("params", "mistral:latest"): "no module was imported (py:mistral:latest would be)",
    ("params", "unheardof:latest"): "no module was imported (py:unheardof:latest would be)",
    ("kvcache", "mynets:make"): "this needs an architecture",
    ("params", "gpt2", "--run-on", "cpu"): "--run-on is for a module of yours",
    ("flops", "py:mynets:make", "--tp", "2"): "--tp is for an architecture",
    ("memory", "py:mynets:make", "--optimizer", "muon"): "the optimizer 'muon' is not known",
}


@pytest.mark.torch
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_bad_input_is_a_line(run, folder, words):
    code, printed, said = run(*words)
    assert (code, printed) == (2, "")
    assert REFUSED[words] in said
    assert "Traceback" not in said
    assert not (folder / "it_ran").exists()
