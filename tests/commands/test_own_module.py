"""Modules of one's own on the command line: what runs, what does not, and what is said."""

import json
import subprocess
import sys
from unittest import mock

import pytest
import torch

import archcli
from archcli.commands.line.application import application, exit_code

MODULE = """
import os
import torch
from torch import nn

def make():
    print("making")
    os.system("echo a child of it")
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

    def encode(self, ids):
        return self.inner(ids)

class Größe(nn.Module):
    def forward(self, x):
        return x.relu()

class Hollow(nn.Module):
    pass

class Leaves(nn.Module):
    def forward(self):
        raise SystemExit(3)

net = Net()
number = 3

def exits():
    raise SystemExit(9)

def stated():
    return net, "ids=int64[2,5]"

def stated_beside():
    return net, ("int64[2,5]",), {"mask": "bool[2,5]"}
"""
BROKEN = """
def fall(n):
    return fall(n - 1) if n else mynets.breaks()

import mynets
fall(3)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mynets.py").write_text(MODULE)
    (tmp_path / "mistral.py").write_text("open('it_ran', 'w')\n")
    (tmp_path / "broken.py").write_text(BROKEN)
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    (tmp_path / "lacks.py").write_text("import no_such_package\n")
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


@pytest.mark.long
@pytest.mark.torch
def test_summary_has_rows_and_totals(archcli, folder):
    done = archcli("summary", "py:mynets:make", "--json", cwd=folder)
    # what the code prints is not in the way
    assert {"making", "a child of it"} <= {*done.stderr.splitlines()}
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


@pytest.mark.torch
@pytest.mark.parametrize("name", ["stated", "stated_beside"])
def test_a_function_may_state_its_inputs_as_texts(run, name):
    code, printed, _ = run("summary", f"py:mynets:{name}", "--json")
    assert (code, json.loads(printed)["inputs"]["input"][0]) == (0, "ids=int64[2,5]")


@pytest.mark.torch
def test_a_module_of_this_folder_needs_no_prefix(run):
    code, printed, _ = run("summary", "mynets:net", "--input", "[2,5]", "--json")
    report = json.loads(printed)
    # without a dtype, what an embedding reads
    assert (code, report["inputs"]["input"], report["totals"]["params"]) == (0, ["ids=int64[2,5]"], 10 * 4)


@pytest.mark.torch
def test_python_takes_shapes_and_inputs_by_name():
    net = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Linear(4, 3))
    for report in (
        archcli.summary(net, (2, 5)),
        archcli.summary(net, inputs=(2, 5)),
        archcli.memory(net, (2, 5)),
        archcli.flops(net, inputs="[2,5]"),
    ):
        assert report.inputs["input"] == ["input=int64[2,5]"]
    assert archcli.flops(torch.nn.Linear(4, 3), (2, 4)).totals["matmul_flops"] == 2 * 2 * 4 * 3


NOT_THERE = """
import subprocess
import sys
import archcli
from archcli.commands.line.application import application, exit_code
code = exit_code(application(["summary", "nowhere:GPT"]), ["summary", "nowhere:GPT"])
print(code, "torch" in sys.modules)
"""


@pytest.mark.long
def test_a_module_is_looked_for_before_torch_is_imported():
    ran = subprocess.run(
        [sys.executable, "-c", NOT_THERE], capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout == "2 False\n"


@pytest.mark.torch
def test_parameters_need_no_inputs(run):
    code, printed, _ = run("params", "py:mynets:Net", "--json")
    assert (code, json.loads(printed)["totals"]["params"]) == (0, 10 * 4)


@pytest.mark.torch
def test_ids_of_any_number_take_no_memory(run):
    code, printed, _ = run("summary", "py:mynets:net", "--input", "int64[1000000000,100]", "--json")
    assert (code, json.loads(printed)["rows"][0]["outputs"]) == (0, [[1_000_000_000, 100, 4]])


@pytest.mark.torch
def test_a_gpu_is_asked_for_before_the_code_runs(run, monkeypatch):
    monkeypatch.setattr(torch, "empty", mock.Mock(side_effect=AssertionError("Torch not compiled with CUDA")))
    code, _, said = run("summary", "py:mynets:make", "--run-on", "cuda")
    assert (code, "device 'cuda' cannot be used" in said, "making" in said) == (2, True, False)


@pytest.mark.torch
def test_a_name_may_be_in_any_script(run):
    code, printed, _ = run("summary", "py:mynets:Größe", "--input", "float32[2]", "--format", "csv")
    assert (code, printed.splitlines()[1].split(",")[1]) == (0, "Größe")


@pytest.mark.torch
def test_an_error_in_the_code_is_marked_where_it_is(run, folder):
    _, _, said = run("params", "py:broken:x")
    assert said.splitlines() == [
        f"{folder}/mynets.py:15:5: error: importing broken raises ValueError: no such size",
        '        raise ValueError("no such size")',
        "        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        f"  = help: reached by {folder}/broken.py:6, {folder}/broken.py:3",
    ]


NET = ("summary", "py:mynets:net")


REFUSED = {
    (
        "summary",
        "nowhere:make",
    ): "no module 'nowhere' to import\n  = help: is it installed, in this folder, or",
    ("summary", "py:mynet:make"): "no module 'mynet' to import\n  = help: did you mean mynets?",
    ("summary", "torch.n:Linear"): "no module 'torch.n' to import\n  = help: did you mean torch.nn?",
    ("summary", "mynets.py:make"): "is a Python file: name a function in it\n  = help: py:mynets:make is one",
    ("params", "sub/mynets.py"): "py:sub.mynets:function is one",
    ("summary", "py:mynets.make"): "did you mean py:mynets:make?",
    ("summary", "py:mynets"): "py:pkg.module:function is one",
    ("summary", "py:mynets:mak"): "did you mean make?",
    ("summary", "py:mynets:net.iner"): "mynets.net has no 'iner'\n  = help: did you mean inner?",
    ("summary", "py:mynets:number"): "mynets:number is 3, and makes no module",
    ("summary", "py:mynets:needs"): "missing a required argument: 'size'",
    ("summary", "py:mynets:breaks"): "calling mynets:breaks raises ValueError: no such size",
    ("summary", "py:mynets:exits"): "calling mynets:exits raises SystemExit: 9",
    ("summary", "py:leaves:x"): "leaves.py:2:1: error: importing leaves raises SystemExit: 3",
    ("summary", "py:wrong:x"): "wrong.py:1:7: error: importing wrong raises SyntaxError: invalid syntax\n",
    (
        "summary",
        "py:lacks:x",
    ): "importing lacks raises ModuleNotFoundError: No module named 'no_such_package'",
    ("summary", "py:mynets:Leaves"): "the module raises SystemExit at",
    ("summary", "py:mynets:Hollow"): "Hollow has no forward of its own",
    (*NET, "--input", "idz=int64[2]"): "did you mean ids?",
    (*NET, "--input", "ids=int64"): "is no input",
    (*NET, "--input", "ids=int64[2] mask=bool[2]"): "give --input once for each",
    (*NET, "--input", "ids=int65[2]"): "is no dtype of torch",
    (*NET, "--input", "ids=int4[2]"): "is no dtype of torch",
    (*NET, "--input", "ids=int64[9999999999999999999]"): "is larger than any tensor",
    (*NET, "--input", "ids=int64[2]", "--input", "ids=int64[3]"): "the input 'ids' is given twice",
    (*NET, "--input", "ids=float32[2]"): "--input states others, with ids in whole numbers: int64",
    ("summary", "py:mynets:make", "--input", "bf16[3,4]"): "has torch.float32 and torch.bfloat16",
    NET: "missing a required argument: 'ids'\n  = help: it takes ids, mask: give tensors, or texts as "
    "--input 'ids=int64[1,8]' does",
    (*NET, "--call", "encod"): "did you mean encode?",
    (*NET, "--call", "training"): "Net has no method 'training'",
    ("summary", "gpt2"): "names no module of yours",
    ("params", "unheardof:latest"): "no module was imported (py:unheardof:latest would be)",
    ("kvcache", "mynets:make"): "this needs an architecture",
    ("params", "gpt2", "--run-on", "cpu"): "--run-on is for a module of yours",
    ("flops", "gpt2", "--input", "input_ids=int64[1,8]"): "--by-class counts the class of a config.json",
    ("flops", "py:mynets:make", "--tp", "2"): "--tp is for an architecture",
    ("memory", "py:mynets:make", "--plot", "x.svg"): "--plot is for an architecture",
    ("show", "py:mynets:make", "--format", "yaml"): "--format yaml is for an architecture",
    ("profile", "py:mynets:make", "--repeat-process", "2"): "--repeat-process is for an architecture",
    ("profile", "py:mynets:make", "--device", "cuda"): "profiled on a CPU",
    ("memory", "py:mynets:make", "--optimizer", "muon"): "the optimizer 'muon' is not known",
}


@pytest.mark.sample(7, whole=True)
@pytest.mark.torch
@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_bad_input_is_a_line(run, folder, words):
    code, printed, said = run(*words)
    assert (code, printed) == (2, "")
    assert REFUSED[words] in said
    assert "Traceback" not in said
    assert not (folder / "it_ran").exists()
