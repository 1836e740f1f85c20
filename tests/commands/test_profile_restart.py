"""`archcli profile` starts itself again: never with code of the current folder."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

restart = import_module("archcli.wings.running.commands.profile.processes")

BEYOND = "embedding.positions has 1024 positions, and 1025 tokens are asked for"
WAYS = {"allocator": (), "processes": ("--repeat-process", "2")}
SCRIPT = "import sys\nfrom archcli.cli import main\nsys.exit(main())\n"
STARTS = {"script": (), "isolated script": ("-P",), "module": ("-P", "-m", "archcli")}


@pytest.fixture
def hostile(tmp_path):
    """A folder whose Python files have the names of archcli and of modules that it imports."""
    folder = tmp_path / "hostile"
    (folder / "archcli").mkdir(parents=True)
    names = ("queue", "typing", "json", "torch", "yaml", "typer", "sitecustomize", "archcli/__main__")
    for name in (*names, "archcli/__init__"):
        (folder / f"{name}.py").write_text("raise SystemExit('code of the current folder ran')\n")
    return folder


@pytest.fixture
def script(tmp_path):
    """The program as pip installs it: a file in a folder of its own."""
    path = tmp_path / "bin" / "archcli"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("more", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_no_code_of_the_current_folder_runs(hostile, script, start, more):
    """Refused by the process that was started again, before torch is imported."""
    command = [sys.executable, *start, *([] if "-m" in start else [str(script)])]
    done = subprocess.run(
        [*command, "profile", "gpt2", "-s", "1025", *more],
        cwd=hostile,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert BEYOND in done.stderr


@pytest.mark.long
def test_a_module_imports_nothing_from_the_current_folder_either(hostile):
    """Whatever `python -m` itself has not imported before archcli begins."""
    for name in ("archcli/__main__", "archcli/__init__", "typing"):
        (hostile / f"{name}.py").unlink()
    (hostile / "archcli").rmdir()
    package = str(Path(restart.__file__).parents[3])
    command = [sys.executable, "-m", "archcli", "profile", "gpt2", "-s", "1025"]
    done = subprocess.run(
        command,
        cwd=hostile,
        env=os.environ | {"PYTHONPATH": package},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert BEYOND in done.stderr


def test_a_program_starts_again_as_it_was_started(monkeypatch):
    monkeypatch.setattr(restart, "is_program", lambda: True)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-I", "-X", "utf8", "/bin/archcli", "profile", "gpt2"])
    monkeypatch.setattr(sys, "argv", ["/bin/archcli", "profile", "gpt2"])
    assert restart.program() == [sys.executable, "-I", "-X", "utf8", "/bin/archcli"]


def test_what_is_no_program_starts_one_without_the_current_folder(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["archcli", "profile", "gpt2"])
    assert restart.program() == [sys.executable, "-P", "-m", "archcli"]


def test_every_started_python_leaves_the_current_folder_out():
    """Whoever starts Python with -m says -P, or asks restart."""
    package = Path(restart.__file__).parents[2]
    starts = [path for path in package.rglob("*.py") if "sys.executable" in path.read_text()]
    assert {path.name for path in starts} == {"processes.py"}
    assert starts[0].parent == package / "commands" / "profile"
