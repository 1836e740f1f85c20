"""Pythons on this machine, and fresh virtual environments of theirs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SERIES = ("3.11", "3.12", "3.13", "3.14")
ASKED = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
"""A Python counts where it answers this: Debian's may lack venv, and a shim of pyenv may lead nowhere."""


def pythons() -> dict[str, Path]:
    """A Python of each series that is there, by the name of the series."""
    known = {
        series: next(filter(lambda path: answers(path, series), _places(series)), None) for series in SERIES
    }
    return {series: path for series, path in known.items() if path}


def _places(series: str) -> Iterator[Path]:
    """Where a Python of a series may lie: this one, those on PATH, pyenv's, uv's."""
    yield Path(sys.executable)
    yield from (Path(path) for path in [shutil.which(f"python{series}")] if path)
    yield from sorted(Path.home().glob(f".pyenv/versions/{series}.*/bin/python3"))
    if uv := shutil.which("uv"):
        done = subprocess.run([uv, "python", "find", series], capture_output=True, text=True, check=False)
        yield from map(Path, done.stdout.split("\n")[:1])


def answers(python: Path, series: str) -> bool:
    """Whether this Python is of the series and makes environments."""
    try:
        done = subprocess.run([python, "-c", ASKED], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == series


def environment(python: Path, folder: Path, *wanted: str | Path) -> Path:
    """A fresh environment with these packages from the index, or files; the folder of its programs."""
    call(python, "-m", "venv", "--clear", folder)
    call(folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    return folder / "bin"


def call(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a command and return what it prints; ends with its output where it fails."""
    words = list(map(str, command))
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=cwd, env=env
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nFAILED with {done.returncode}: {' '.join(words)}")
    return done.stdout
