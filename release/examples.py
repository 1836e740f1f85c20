"""README's examples with an installed archcli, in an empty folder; not those that need more packages."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
NEED_MORE = {"profile", "verify", "explain", "sweep"}
"""Commands that need torch, sympy or numpy, which the wheel alone does not bring."""
LEFT_OUT = "…\n"
NAMED = re.compile(r"^```yaml\n(# (\S+\.yaml)\n.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
INSTALLED = re.compile(r"\.venv/bin/(archcli [^&\n]+)")


def examples(readme: str) -> list[tuple[str, str]]:
    """(command, the output shown) of README; the commands behind its installation show none."""
    typed = [(command.strip(), "") for command in INSTALLED.findall(readme)]
    steps = [
        step for block in CONSOLE.findall(readme) for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    ]
    shown = [(command, output.strip("\n")) for command, _, output in (step.partition("\n") for step in steps)]
    return [example for example in typed + shown if shlex.split(example[0])[1] not in NEED_MORE]


def is_shown(printed: str, shown: str) -> bool:
    """Whether README shows what is printed, but for the lines that its `…` stand for."""
    pieces = [re.escape(piece) for piece in f"{shown.strip(chr(10))}\n".split(LEFT_OUT)]
    return re.fullmatch("(?:.*\n)+?".join(pieces), printed.strip("\n") + "\n") is not None


def lay_out(folder: Path, readme: str) -> None:
    """Write the files that the examples name."""
    for text, name in NAMED.findall(readme):
        (folder / name).write_text(text)
    config = json.loads((ROOT / "tests" / "oracle" / "configs" / "gpt2.json").read_text())
    (folder / "gpt2-download").mkdir()
    (folder / "gpt2-download" / "config.json").write_text(
        json.dumps(config | {"architectures": ["GPT2LMHeadModel"]}, indent=2)
    )


def run_examples(program: Path, folder: Path, env: dict[str, str]) -> list[str]:
    """What differs from README, a line each; `program` is the archcli that is tried."""
    readme = (ROOT / "README.md").read_text()
    lay_out(folder, readme)
    faults = []
    for command, shown in examples(readme):
        words = [str(program), *shlex.split(command)[1:]]
        done = subprocess.run(
            words,
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not is_shown(done.stdout, shown) if shown else done.returncode:
            faults.append(f"{command}: exit {done.returncode}\n{done.stdout}")
    return faults
