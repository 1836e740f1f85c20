"""README tells the truth.

Each example is run as it stands, and where its output is shown, that is what it prints.

In a ```console block a line that begins with `$ ` is a command and the lines up to the next one are its
output; `pytest -n0 --renew tests/test_readme.py` writes what is printed now over what is shown (a lone `...`
asks for it). A ```yaml block that begins with `# name.yaml` is a file the examples find. A ```python block
runs; where it has `>>>` prompts, it is a doctest.
"""

import doctest
import json
import re
import shlex
import subprocess
import sys
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import NamedTuple

import pytest

from hub_files import gpt2_file

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


class Example(NamedTuple):
    command: str
    shown: str


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), flags=re.DOTALL | re.MULTILINE)


def examples():
    steps = [step for block in blocks("console") for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [Example(*step.partition("\n")[::2]) for step in steps]


def cases():
    """The examples by their command; those that run a model take long."""
    for example in examples():
        slow = shlex.split(example.command)[1] in {"profile", "verify"}
        yield pytest.param(example, id=example.command, marks=[pytest.mark.long] if slow else [])


@pytest.fixture
def folder(tmp_path):
    """A folder with the YAML files that README shows, and `gpt2-download` as the hub would give it."""
    for block in blocks("yaml"):
        if named := re.match(r"# (\S+\.yaml)", block):
            (tmp_path / named[1]).write_text(block)
    download = tmp_path / "gpt2-download"
    download.mkdir()
    (download / "config.json").write_text((ROOT / "tests" / "oracle" / "configs" / "gpt2.json").read_text())
    write_header(download / "model.safetensors", gpt2_file(12, 768, 1024, 50257))
    return tmp_path


def write_header(path, shapes):
    """A file of these float32 tensors whose data is a hole: half a GB that takes no room."""
    ends = list(accumulate(4 * prod(shape) for shape in shapes.values()))
    places = zip(shapes.items(), [0, *ends], ends, strict=False)
    entries = {
        name: {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        for (name, shape), begin, end in places
    }
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + ends[-1])


def on_a_terminal(command, folder):
    """(exit code, everything a person sees) of one command line."""
    verb, *args = shlex.split(command)
    assert verb == "archcli"
    command = [sys.executable, "-m", "archcli", *args]
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize("example", list(cases()))
def test_an_example_prints_what_is_shown(example, folder, renew):
    code, printed = on_a_terminal(example.command, folder)
    assert "Traceback" not in printed
    if not example.shown.strip():
        assert code == 0, printed
    elif renew:
        old, new = (
            f"$ {example.command}\n{output}"
            for output in (example.shown.rstrip("\n") + "\n", printed.rstrip("\n") + "\n")
        )
        README.write_text(README.read_text().replace(old, new))
    else:
        assert printed.strip("\n") == example.shown.strip("\n")


@pytest.mark.long
@pytest.mark.parametrize("block", blocks("python"))
def test_a_python_example_runs(block, folder, monkeypatch):
    monkeypatch.chdir(folder)
    if ">>> " in block:
        test = doctest.DocTestParser().get_doctest(block, {}, "README", str(README), 0)
        assert doctest.DocTestRunner().run(test).failed == 0
    else:
        subprocess.run([sys.executable, "-c", block], check=True, timeout=300)


def test_every_command_has_an_example():
    files = {path.stem for path in (ROOT / "archcli" / "commands").glob("*.py")}
    commands = {stem.rstrip("_") for stem in files if not stem.startswith("_")} - {"base", "options"}
    assert commands
    assert commands <= {shlex.split(example.command)[1] for example in examples()}


def test_readme_opens_with_the_two_commands():
    run_it, test_it = blocks("sh")[:2]
    assert all(f"archcli {verb} " in run_it for verb in ("params", "flops", "kvcache"))
    assert "pytest" in test_it
