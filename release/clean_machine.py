"""Tries an installed archcli on a clean machine: an empty home, no network, nothing written unasked.

python release/clean_machine.py ENVIRONMENT/bin/archcli
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

PROFILE = Path(__file__).parents[1] / "docs" / "pictures" / "profile.json"
STEPS = (
    ("--version",),
    ("params", "llama-3.1-8b"),
    ("memory", "llama-3.1-8b", "--phase", "serve", "--device", "rtx-4090"),
    ("--show-completion", "bash"),
    ("plot", "profile.json", "-o", "picture.svg"),
)
ASKED_FOR = {"place/picture.svg"}
NOWHERE = "http://127.0.0.1:9"  # the port of `discard`, at which nobody listens
CUT_OFF = (("unshare", "--net"), ("unshare", "--map-root-user", "--net"))
"""Ways to start a program without a network: as root, and as another user."""


def offline() -> tuple[str, ...]:
    """The words before a command that cut it off from the network; none where the system has none."""
    return next((words for words in CUT_OFF if _works(*words, "true")), ())


def _works(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def bare(home: Path, program: Path) -> dict[str, str]:
    """The variables of somebody who has just logged in, behind a proxy that refuses."""
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    path = f"{program.parent}:/usr/bin:/bin"
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "TMPDIR": str(home.parent / "tmp"), **proxies}


def contents(*folders: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file and folder, by its path below the folder that holds them."""
    places = {
        f"{folder.name}/{path.relative_to(folder)}": path for folder in folders for path in folder.rglob("*")
    }
    return {
        name: (path.lstat().st_size, path.lstat().st_mtime_ns)
        for name, path in places.items()
        if not path.is_dir()
    } | {name: (0, 0) for name, path in places.items() if path.is_dir()}


def try_out(program: Path) -> list[str]:
    """What is wrong, a line each: a command that fails or says nothing, a file that nobody asked for."""
    with TemporaryDirectory() as scratch:
        home, place, temporary = (Path(scratch, name) for name in ("home", "place", "tmp"))
        for folder in (home, place, temporary):
            folder.mkdir()
        (place / "profile.json").write_bytes(PROFILE.read_bytes())
        watched = (home, place, temporary, program.parents[1])
        before = contents(*watched)
        faults = [fault for step in STEPS for fault in _run(program, step, place, bare(home, program))]
        after = contents(*watched)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    faults += [f"{name} was written unasked" for name in sorted(changed - ASKED_FOR)]
    return faults + [f"{name} was not written" for name in sorted(ASKED_FOR - changed)]


def _run(program: Path, step: tuple[str, ...], place: Path, env: dict[str, str]) -> list[str]:
    command = [*offline(), str(program), *step]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    typed = f"archcli {' '.join(step)}: exit {done.returncode}"
    print(f"    {typed}, {len(done.stdout.splitlines())} lines", flush=True)
    fine = done.returncode == 0 and (done.stdout or "-o" in step)
    return [] if fine else [f"{typed}\n{done.stdout}{done.stderr}"]


if __name__ == "__main__":
    sys.exit("\n".join(try_out(Path(sys.argv[1]).absolute())) or 0)
