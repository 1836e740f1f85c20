"""Run the core's tests in a copy of archcli from which wings are deleted.

usage: python tests/without_wings.py [WING…] [-- ARGUMENTS OF PYTEST]

Without a name, once for each wing, and once without any. `helpers/absent.py` leaves out what needs them.
"""

import shutil
import subprocess
import sys
import tempfile
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WINGS = sorted(path.parent.name for path in (ROOT / "archcli/wings").glob("*/wing.json"))


def copied(folder, wings):
    """Copy the project to a folder, without wings."""
    left = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", "node_modules")
    shutil.copytree(ROOT, folder, ignore=left, dirs_exist_ok=True)
    for wing in wings:
        shutil.rmtree(folder / "archcli/wings" / wing)
    for command in (["init", "-q"], ["add", "-A"]):  # some tests ask git for the files
        subprocess.run(["git", *command], cwd=folder, check=True, timeout=300)  # noqa: S607


def without(wings, arguments):
    """Run the tests without wings; the exit code of pytest and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder), wings)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *arguments],
            cwd=folder,  # `-m` imports from the current folder first
            capture_output=True,
            text=True,
            check=False,
            timeout=1200,
        )
    return done.returncode, done.stdout + done.stderr


def main():
    """Run each, print how each ends, and exit with 1 where a test fails."""
    wings = list(takewhile("--".__ne__, sys.argv[1:]))
    arguments = sys.argv[2 + len(wings) :]
    failed = False
    for gone in [wings] if wings else [*([wing] for wing in WINGS), WINGS]:
        code, printed = without(gone, arguments)
        failed |= code != 0
        print(f"without {', '.join(gone)}: {printed.strip().splitlines()[-1]}", flush=True)
        print(printed if code else "", end="")
    sys.exit(failed)


if __name__ == "__main__":
    main()
