"""`archcli profile --repeat-process`: as many fresh processes, one report, nobody left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from archcli.errors import ArchError
from tiny_model import TINY

pytestmark = pytest.mark.torch

processes = import_module("archcli.wings.running.commands.profile.processes")
SHORT = ("-s", 8, "--pairs", 1, "--threads", 1, "--no-ceilings")


@pytest.fixture
def one(cli, tiny):
    """What one process prints."""
    return json.loads(cli("profile", tiny, *SHORT, "--json").out)


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [(), ("--per-kind",), ("--allocator", "system", "--set", "d_ff=40")],
    ids=["plain", "kinds", "options"],
)
def test_two_processes_make_one_report(archcli, tiny, more):
    done = archcli("profile", tiny, *SHORT, *more, "--repeat-process", 2, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    totals = found["totals"]
    assert (totals["processes"], totals["pairs"], found["inputs"]["repeat_process"]) == (2, 2, 2)
    assert totals["extrapolated"] is ("--per-kind" in more)
    assert totals["machine"]["threads"] == 1
    for figures in totals["by_class"].values():
        least, most = figures["time_share_range"]
        assert least <= figures["time_share"] <= most
    if "--set" in more:
        assert found["inputs"]["set"] == ["d_ff=40"]
        assert totals["machine"]["allocator"] == "as the system has it"
    elif sys.platform == "linux":
        assert totals["machine"]["allocator"] == "large blocks kept"


@pytest.mark.long
def test_standard_input_reaches_every_process(archcli, tmp_path):
    done = archcli(
        "profile", "-", *SHORT, "--repeat-process", 2, "--plot", tmp_path / "p.svg", "--json", text_in=TINY
    )
    assert json.loads(done.stdout)["totals"]["processes"] == 2
    assert (tmp_path / "p.svg").read_text().startswith("<svg")


@pytest.mark.long
def test_options_are_handed_on_and_what_is_shown_is_not(cli, tiny, one, monkeypatch):
    commands = []
    monkeypatch.setattr(
        processes,
        "_run_report",
        lambda command, text: commands.append(command[command.index("profile") :]) or one,
    )
    done = cli(
        "profile",
        tiny,
        *SHORT,
        "--set",
        "d_ff=40",
        "--set",
        "n_layers=1",
        "--repeat-process",
        3,
        "--top",
        2,
        "--json",
        "--dtype=bf16",
    )
    assert done.code == 0
    assert commands == [commands[0]] * 3
    command = commands[0][commands[0].index("profile") :]
    assert (command[0], command[-3:]) == ("profile", ["--json", "--", str(tiny)])
    for option in (
        "--seq-len=8",
        "--pairs=1",
        "--threads=1",
        "--no-ceilings",
        "--set=d_ff=40",
        "--set=n_layers=1",
        "--dtype=bf16",
    ):
        assert option in command
    assert not [
        option for option in command if option.startswith(("--repeat", "--top", "--output", "--per-kind"))
    ]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("finished", [0, 1])
def test_an_interrupt_keeps_the_processes_that_finished(cli, tiny, one, monkeypatch, finished):
    calls = []

    def stopping(command, text):
        calls.append(command)
        if len(calls) > finished:
            raise KeyboardInterrupt
        return one

    monkeypatch.setattr(processes, "_run_report", stopping)
    done = cli("profile", tiny, *SHORT, "--repeat-process", 3, "--json")
    assert done.code == 130
    if finished:
        found = json.loads(done.out)
        assert (found["totals"]["partial"], found["totals"]["processes"]) == (True, 1)
        assert found["notes"][0] == "PARTIAL: interrupted after 1 of 3 processes."
    else:
        assert (done.out, done.err) == ("", "interrupted before the first process had finished\n")


REFUSED = {
    "a trace": (["--trace", "t.json"], "--trace is of one pass, which is in one process"),
    "variants": (["--vs", "d_ff=64"], "--vs takes its ratios within the rounds of one process"),
    "what one process refuses": (["-s", "65", "--set", "d_ff=0"], "d_ff"),
}


@pytest.mark.long
@pytest.mark.parametrize(("args", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_repeated_is_refused(archcli, tiny, args, words):
    done = archcli("profile", tiny, *args, "--repeat-process", 2)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_a_process_starts_ends_it(monkeypatch):
    started = []

    def interrupted(command, **options):
        started.append(honest(command, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    honest = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        processes._run_child([sys.executable, "-c", "import time; time.sleep(600)"], b"")
    assert started[0].returncode == -signal.SIGKILL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_is_killed_is_told_of():
    with pytest.raises(ArchError, match="a process was ended by signal 9"):
        processes._run_report([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], b"")


def children(pid):
    """Processes that one has started and not waited for yet."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
def test_an_interrupt_leaves_no_process_behind(tiny):
    """The signal is sent to the parent alone, so that it has to end its child itself."""
    command = [
        sys.executable,
        "-m",
        "archcli",
        "profile",
        str(tiny),
        *map(str, SHORT),
        "--pairs",
        "2000",
        "--repeat-process",
        "2",
    ]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not children(parent.pid):
        assert parent.poll() is None
        time.sleep(0.01)
    [child] = children(parent.pid)
    parent.send_signal(signal.SIGINT)
    out, err = parent.communicate(timeout=60)
    assert (parent.returncode, out, err) == (130, "", "interrupted before the first process had finished\n")
    with pytest.raises(ProcessLookupError):
        os.kill(child, signal.SIGKILL)  # one that is still there has failed the test, and goes
