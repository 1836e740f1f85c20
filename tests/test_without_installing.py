"""`uvx --from . archcli …` and `pipx run --spec . archcli …` answer without installing archcli."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WAYS = {"uvx": ("uvx", "--from", "."), "pipx": ("pipx", "run", "--spec", ".")}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_checkout_runs_without_being_installed(way, tmp_path):
    """In a folder of its own for what is built and fetched; it needs the index of packages."""
    program = shutil.which(
        way[0], path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    )
    if program is None:
        pytest.skip(f"{way[0]} is not installed")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    places = {name: str(tmp_path / name) for name in ("UV_CACHE_DIR", "PIPX_HOME", "XDG_CACHE_HOME")}
    done = subprocess.run(
        [program, *way[1:], "archcli", "params", "gpt2", "--json"],
        cwd=ROOT,
        env=own | places,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (done.returncode, '"params": 124439808' in done.stdout) == (0, True), done.stderr
