"""Ranks as processes: torchrun, or a launcher by hand, of archcli installed as a program."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from tiny_model import TINY

PACKAGE = Path(__file__).parents[2]
PROGRAM = "#!{}\nimport sys\nfrom archcli.cli import main\nsys.exit(main())\n"
TORCHRUN = (sys.executable, "-P", "-m", "torch.distributed.run")
SHORT = ("-s", "8", "--pairs", "1", "--no-ceilings")
ENDLESS = ("-s", "8", "--pairs", "1000000", "--no-ceilings")


def installed(folder):
    """The program in a folder of its own, as pip installs it."""
    path = folder / "bin" / "archcli"
    path.parent.mkdir(exist_ok=True)
    path.write_text(PROGRAM.format(sys.executable))
    path.chmod(0o755)
    return path


def hostile(folder):
    """A current folder whose Python files have the names of archcli and of modules that it imports."""
    (folder / "archcli").mkdir(parents=True)
    for name in ("typing", "json", "torch", "typer", "archcli/__init__", "archcli/__main__"):
        (folder / f"{name}.py").write_text("raise SystemExit('code of the current folder ran')\n")
    (folder / "tiny.yaml").write_text(TINY)
    return folder


def environment(**more):
    """That of an active virtual environment: `python` is the one that runs the tests."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return os.environ | {"PYTHONPATH": str(PACKAGE), "PATH": path} | more


def torchrun(number, *command, cwd):
    """What torchrun started, as (exit code, stdout, stderr)."""
    words = [*TORCHRUN, "--no-python", "--nproc-per-node", str(number), *map(str, command)]
    done = subprocess.run(
        words, cwd=cwd, env=environment(), capture_output=True, text=True, timeout=400, check=False
    )
    return done.returncode, done.stdout, done.stderr


def started(number, *command, cwd):
    """torchrun in the background."""
    words = [*TORCHRUN, "--no-python", "--nproc-per-node", str(number), *map(str, command)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, cwd=cwd, env=environment(), **pipes)


def by_hand(number, *command, cwd, **more):
    """Every rank as a process that this one starts, as any launcher might."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    return [
        subprocess.Popen(
            [*map(str, command)],
            cwd=cwd,
            env=environment(
                RANK=str(rank),
                WORLD_SIZE=str(number),
                MASTER_ADDR="localhost",
                MASTER_PORT=str(port),
                OMP_NUM_THREADS="1",
                **more,
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(number)
    ]


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until_joined(pids, within=120):
    """Return when the processes have found each other: a rank then has connections to others."""
    end = time.monotonic() + within
    while not all(map(_is_joined, pids)):
        assert time.monotonic() < end
        time.sleep(0.1)


def _is_joined(pid):
    """Whether threads of torch's groups run."""
    names = [path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")]
    return any("gloo" in name for name in names)


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
