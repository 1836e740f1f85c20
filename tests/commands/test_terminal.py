"""archcli in a process of its own: on terminals, in pipes, interrupted, completed."""

import errno
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest

from quick_commands import QUICK


def process(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "archcli", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def on_a_terminal(*args, columns=80, **environment):
    """What a terminal of so many columns is sent."""
    main, side = pty.openpty()
    inherited = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLUMNS"}}
    child = subprocess.Popen(
        [sys.executable, "-m", "archcli", *args],
        stdin=side,
        stdout=side,
        stderr=side,
        env={
            **inherited,
            "TERM": "xterm-256color",
            "COLUMNS": str(columns),
            "PYTHONIOENCODING": "utf-8",
            **environment,
        },
    )
    os.close(side)
    sent = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError as end:
            assert end.errno == errno.EIO  # noqa: PT017
            break
        if not piece:
            break
        sent += piece
    os.close(main)
    assert child.wait(60) == 0
    return sent.decode().replace("\r\n", "\n")


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("columns", [80, 40])
@pytest.mark.parametrize("command", [name for name in QUICK if name != "schema"])
def test_a_terminal_gets_tables(command, columns):
    sent = on_a_terminal(*QUICK[command], columns=columns)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", sent)
    assert "─" in bare or columns < 80
    assert max(map(len, bare.splitlines())) <= columns


@pytest.mark.long
def test_colour_and_none():
    assert "\x1b[" in on_a_terminal("params", "gpt2")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", on_a_terminal("params", "gpt2", NO_COLOR="1"))


@pytest.mark.long
def test_a_pipe_is_never_cut():
    done = process("list", env={**os.environ, "COLUMNS": "20"})
    assert "llama-3.1-405b" in done.stdout
    assert "…" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) > 80


def into_a_pipe(*args, columns=80):
    """What a pipe gets whose command writes its errors to a terminal of so many columns, as `| head`."""
    main, side = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns)}
    command = [sys.executable, "-m", "archcli", *args]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=side, env=environment, text=True, timeout=60, check=True
    )
    os.close(side)
    os.close(main)
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("command", ["list", "devices", "families"])
def test_a_pipe_from_a_terminal_has_a_line_for_each_row(command):
    sent = into_a_pipe(command)
    assert max(map(len, sent.splitlines())) <= 80
    assert "Fitted to 80 columns, without " in sent
    assert into_a_pipe(command, "--format", "plain") == process(command).stdout


@pytest.mark.long
def test_families_are_a_table_on_a_terminal():
    """One line each, of 419 types, and a few folded: no list of records."""
    assert len(on_a_terminal("families").splitlines()) < 600


@pytest.mark.long
def test_a_narrow_terminal_has_the_numbers_of_a_formula_below_it_without_headings():
    sent = on_a_terminal("explain", "llama-3.1-8b", columns=40)
    bare = re.sub(r"\x1b\[[0-9;]*m", "", sent)
    lines = [line.strip() for line in bare.splitlines()]
    start = lines.index("embedding")
    # 4,096 x 128,256 parameters of 8,030,261,248
    share = f"{100 * 4096 * 128_256 / 8_030_261_248:.1f}%"
    assert lines[start + 1 : start + 5] == [
        f"share {share}",
        "parameters d_model*vocab_size",
        "= 4096*128256",
        f"= {4096 * 128_256:,}",
    ]


@pytest.mark.long
def test_a_reader_that_leaves_is_no_error():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "archcli", "list"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_quietly():
    """While a model is read from standard input that nobody fills."""
    child = subprocess.Popen(
        [sys.executable, "-m", "archcli", "params", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(2)  # it reads by now; an interrupt of what comes before ends alike
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    # communicate() would close standard input first
    assert child.wait(30) == 130
    assert child.communicate() == ("", "")


@pytest.mark.long
def test_the_module_is_the_command(cli):
    assert process("params", "gpt2").stdout == cli("params", "gpt2").out


@pytest.mark.usefixtures("interruptible")
@pytest.mark.sample(1)
@pytest.mark.parametrize("delay", [i * 0.01 for i in range(30)])
def test_ctrl_c_while_archcli_is_imported_ends_quietly(delay):
    """From when `main` runs; what Python does before is not archcli's."""
    code = """
import sys
from archcli.cli import main

class Begun:
    def find_spec(name, *_):
        if name == "archcli.commands.line.application":
            print("begun", flush=True)

sys.meta_path.insert(0, Begun)
sys.argv = ["archcli", "params", "gpt2"]
main()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "begun\n"
    time.sleep(delay)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert err == ""
    assert (child.returncode, out == "") in {(130, True), (0, False), (-signal.SIGINT, False)}


@pytest.mark.long
@pytest.mark.parametrize("ignored", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_interrupts_are_ignored_nothing_changes(ignored):
    """As nohup and a shell's background jobs start programs."""
    done = process("params", "gpt2", preexec_fn=lambda: signal.signal(signal.SIGINT, ignored))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("gpt2: 124M parameters")


CLOSED = {
    "a report": (("params", "gpt2"), 2),
    "help": (("--help",), 2),
    "help of a command": (("params", "-h"), 2),
    "the version": (("--version",), 2),
    "a file": (("params", "gpt2", "-o", "out.json"), 0),
    "an error": (("params", "nowhere"), 2),
    "standard input": (("params", "-"), 2),
}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full"])
@pytest.mark.parametrize(("args", "code"), CLOSED.values(), ids=CLOSED)
def test_closed_streams_are_one_error(tmp_path, args, code, streams):
    line = f'exec "$@" {streams}'
    command = ["bash", "-c", line, "bash", sys.executable, "-m", "archcli", *args]
    text = None if "<" in streams else ""
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, input=text
    )
    printed = ">&-" in streams.split() or "/dev/full" in streams
    assert done.returncode == (code if printed or code == 0 or args[-1] in {"-", "nowhere"} else 0)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    if printed and code and "2>&-" not in streams and args[-1] not in {"-", "nowhere"}:
        assert done.stderr.startswith("error: cannot write to standard output: ")
        assert done.stderr.count("\n") == 1
    if "-o" in args:
        assert (tmp_path / "out.json").read_text().startswith("{")


@pytest.mark.long
def test_completion_knows_the_commands():
    environment = {
        **os.environ,
        "_ARCHCLI_COMPLETE": "complete_bash",
        "COMP_WORDS": "archcli k",
        "COMP_CWORD": "1",
    }
    assert process(env=environment).stdout.split() == ["kvcache"]
