"""Ctrl-C while the program starts, whatever is being imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTER = """
import os, signal, sys

class Interrupter:
    def find_spec(self, name, *_):
        if name == os.environ["INTERRUPTED_IMPORT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
"""
IMPORTS = (
    "archcli.lazy",
    "archcli.cli",
    "archcli.commands.line.application",
    "archcli.commands.params",
)
ROOT = str(Path(__file__).parents[2])


@pytest.mark.sample(1, whole=True)
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("start", ["-m archcli", "script"])
def test_an_interrupt_during_any_import_ends_quietly(start, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTER)
    script = tmp_path / "archcli"  # as pip writes it
    script.write_text("import sys\nfrom archcli.cli import main\nsys.exit(main())\n")
    command = [sys.executable, *(["-m", "archcli"] if start == "-m archcli" else [script]), "params", "gpt2"]
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), ROOT])}
    for name in IMPORTS:
        env = os.environ | path | {"INTERRUPTED_IMPORT": name}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)
        assert (done.returncode, done.stdout, done.stderr) == (130, "", ""), name


def test_a_library_leaves_interrupts_alone():
    code = "import signal, archcli; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {code}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "True\n"


LOST = """
import os, signal, sys, weakref
from archcli.cli import main
import archcli.commands.line.application as application

class Dies: pass

def exit_code(*_):
    dies = Dies()
    kept = weakref.ref(dies, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del dies
    print("went on")

application.exit_code = exit_code
main()
"""


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_python_would_lose_ends_quietly():
    """In a callback of a weak reference, as importlib has them."""
    done = subprocess.run(
        [sys.executable, "-c", LOST], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupted_list_shows_those_that_were_asked(cli, monkeypatch):
    from archcli.wings.serving.api.fitting import listing

    row, seen = listing._row, []

    def interrupted(entry, question):
        seen.append(entry.name)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return row(entry, question)

    monkeypatch.setattr(listing, "_row", interrupted)
    done = cli("fit", "--device", "rtx-4090", "--where", "params<3e9", "--json")
    assert done.code == 130
    report = json.loads(done.out)
    assert {row["model"] for row in report["rows"]} == {*seen[:3]}
    assert (report["totals"]["asked"], len(report["rows"])) == (3, 3)
    assert report["notes"][0] == f"Interrupted: {report['totals']['left']} more were not asked."
    seen[:] = ["a", "b", "c"]  # the first is interrupted
    assert (cli("fit", "--device", "rtx-4090").code, len(seen)) == (130, 4)
