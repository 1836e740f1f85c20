"""What action.yml runs: checks the architectures that a change touches, and counts their parameters.

Annotations go to the log, findings to archcli.sarif, a table to GITHUB_STEP_SUMMARY. Reads BASE, PATHS,
SEVERITY and the runner's variables. Exits as `archcli check` does: 0, 1 for findings, 2 for a file that
cannot be read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote

SARIF = "archcli.sarif"
HEADING = (
    "| file | parameters | before | change | active | errors | warnings |\n|---|---|---|---|---|---|---|\n"
)


def archcli(*args: str, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    """Run archcli as installed beside this Python; unless `quiet`, what it says of errors goes to the log."""
    command = [sys.executable, "-P", "-m", "archcli", *args]
    errors = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, check=False)


def git(*args: str) -> str:
    """What a command of git prints; ends the job with a line where it fails."""
    done = subprocess.run(["git", *args], capture_output=True, text=True, check=False)  # noqa: S607
    if done.returncode:
        hint = "check out with fetch-depth: 0"
        sys.exit(f"::error::git {args[0]} failed: {done.stderr.strip().splitlines()[-1]}; {hint}")
    return done.stdout


def start() -> str:
    """The commit where the change began; empty for the first push of a branch, whose BASE is forty zeros."""
    base = os.environ.get("BASE", "").strip()
    return git("merge-base", base, "HEAD").strip() if base.strip("0") else ""


def changed(since: str) -> list[str]:
    """Files of PATHS that differ from a commit; all of them where there is none."""
    paths = os.environ["PATHS"].split()
    what = ("diff", "--name-only", "--diff-filter=d", since, "HEAD") if since else ("ls-files",)
    return git(what[0], "-z", *what[1:], "--", *paths).split("\0")[:-1]


def params(file: str, *, quiet: bool = False) -> dict[str, Any]:
    """The totals of `archcli params`; empty where the file is refused."""
    done = archcli("params", "--json", "--", file, quiet=quiet)
    return {} if done.returncode else json.loads(done.stdout)["totals"]


def params_before(since: str, file: str) -> dict[str, Any]:
    """The same of the file as it was; empty where it was not there, or was refused."""
    old = subprocess.run(["git", "show", f"{since}:{file}"], capture_output=True, check=False)  # noqa: S607
    if not since or old.returncode:
        return {}
    with TemporaryDirectory() as folder:
        path = Path(folder, Path(file).name)  # the name says what kind of file it is
        path.write_bytes(old.stdout)
        return params(str(path), quiet=True)  # its mistakes are no part of this change


def is_foreign(file: str) -> bool:
    """Whether a config.json is another program's: neither counted nor found fault with."""
    return Path(file).name == "config.json" and not params(file) and not count(sarif([file]))


def sarif(files: list[str]) -> str:
    """The findings of all files as SARIF."""
    return archcli("check", "--skip-files", "--format", "sarif", "--exit-zero", "--", *files).stdout


def count(findings: str) -> Counter[tuple[str, str]]:
    """Findings by file and severity."""
    results = json.loads(findings)["runs"][0]["results"] if findings else []
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
    return Counter((unquote(place), result["level"]) for place, result in zip(places, results, strict=True))


def row(since: str, file: str, counts: Counter[tuple[str, str]]) -> str:
    """A line of the table: parameters now and before."""
    now, before = params(file), params_before(since, file)
    figures = [f"{totals['params']:,}" if totals else "–" for totals in (now, before)]
    change = f"{now['params'] / before['params'] - 1:+.2%}" if now and before else "–"
    active = f"{now['active_params']:,}" if now else "–"
    found = [str(counts[file, level]) for level in ("error", "warning")]
    name = " ".join(
        escape(file).replace("|", "&#124;").split()
    )  # the name is the author's: neither HTML nor a cell
    return f"| <code>{name}</code> | {' | '.join([*figures, change, active, *found])} |\n"


def say(variable: str, text: str) -> None:
    """Append to a file that the runner reads."""
    with Path(os.environ[variable]).open("a", encoding="utf-8") as file:
        file.write(text)


def main() -> int:
    """Check the changed files; the exit code of the check."""
    since = start()
    files = [file for file in changed(since) if not is_foreign(file)]
    if not files:
        say("GITHUB_STEP_SUMMARY", "archcli: no model architecture changed.\n")
        return 0
    found = sarif(files)
    table = HEADING + "".join(row(since, file, count(found)) for file in files)
    say("GITHUB_STEP_SUMMARY", f"### archcli\n\n{table}")
    if found:
        Path(SARIF).write_text(found, encoding="utf-8")
        say("GITHUB_OUTPUT", f"sarif={SARIF}\n")
    severity = os.environ.get("SEVERITY", "error")
    fails = ("--exit-zero",) if severity == "never" else ("--severity", severity)
    checked = archcli("check", "--skip-files", "--format", "github", *fails, "--", *files)
    sys.stdout.write(checked.stdout)
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
