"""What a change moved: every figure of the commands without torch, of all presets, in two checkouts.

usage: python benchmarks/compare_checkouts.py OLD NEW [--only TEXT]

Runs each command in both folders, in one process per folder, and prints every difference of their JSON with
its place in it; exits 1 where there is one. Models are the presets and configurations that both folders hold;
--only keeps the commands whose line contains the text.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# one process per checkout: argument lists come in as JSON, one a line, and [exit code, output, errors] go out
WORKER = """
import contextlib, io, json, sys
from archcli.cli import main

def run(args):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["archcli", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except Exception as error:
            code = f"{type(error).__name__}: {error}"
    return code, out.getvalue(), err.getvalue()

for line in sys.stdin:
    print(json.dumps(run(json.loads(line))), flush=True)
"""
CONFIGS = "tests/oracle/configs"
PHASES = ("forward", "train", "prefill", "decode")


def names(folder: Path, pattern: str) -> set[str]:
    """Names of the files of a checkout that fit the pattern, from its root."""
    return {str(path.relative_to(folder)) for path in folder.glob(pattern)}


def commands(old: Path, new: Path) -> Iterator[list[str]]:
    """Yield every argument list that both checkouts are run with."""
    presets = sorted(Path(name).stem for name in names(old, "presets/*.yaml") & names(new, "presets/*.yaml"))
    configs = sorted(names(old, f"{CONFIGS}/*.json") & names(new, f"{CONFIGS}/*.json"))
    yield from (["list"], ["survey", *presets, "--no-presets"], ["schema"], ["schema", "--of", "profile"])
    yield ["rules"]
    yield from (["rule", code] for code in rule_codes(old))
    for model in presets + configs:
        yield from commands_of(model)
    yield from (["compare", *pair] for pair in pairwise(presets))


def commands_of(model: str) -> Iterator[list[str]]:
    """Yield the argument lists of one model."""
    yield from ([verb, model] for verb in ("params", "kvcache", "show"))
    yield ["params", model, "--dtype", "fp32", "--depth", "9"]
    yield ["kvcache", model, "-b", "3", "--context", "100000"]
    yield ["check", model, "--exit-zero"]
    for phase in PHASES:
        past = ["--past", "33"] if phase in {"prefill", "decode"} else []
        yield ["flops", model, "--phase", phase, "-b", "2", "-s", "100", *past]
        yield ["flops", model, "--phase", phase, "--mask", "dense"]


def rule_codes(folder: Path) -> list[str]:
    """Codes of the rules of `archcli check`."""
    [(_, out, _)] = answers(folder, [["rules"]])
    return [row["code"] for row in json.loads(out)["rows"]]


def answers(folder: Path, asked: list[list[str]]) -> list[tuple[Any, str, str]]:
    """Exit code, output and errors of each argument list in a checkout, in their order."""
    lines = "".join(f"{json.dumps(as_json(args))}\n" for args in asked)
    done = subprocess.run(
        [sys.executable, "-c", WORKER], cwd=folder, input=lines, capture_output=True, text=True, check=True
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def as_json(args: list[str]) -> list[str]:
    """The same with JSON for output, which `schema` prints in any case."""
    return args if args[0] == "schema" else [*args, "--json"]


def differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield the places of two JSON values where they differ, with both."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            yield from differences(old.get(key, "absent"), new.get(key, "absent"), f"{place}.{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{place}[{i}]")
    elif old != new or type(old) is not type(new):
        yield f"{place.lstrip('.')}: {json.dumps(old)[:300]} -> {json.dumps(new)[:300]}"


def parsed(text: str) -> Any:
    """JSON where it is, else lines."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text.splitlines()


def main() -> None:
    """Compare, print, and exit 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", default="", help="only commands whose line contains this")
    options = parser.parse_args()
    asked = [args for args in commands(options.old, options.new) if options.only in " ".join(args)]
    count = 0
    for args, *both in zip(
        asked, *(answers(folder, asked) for folder in (options.old, options.new)), strict=True
    ):
        old, new = ({"exit": code, "out": parsed(out), "err": parsed(err)} for code, out, err in both)
        for difference in differences(old, new):
            count += 1
            print(f"archcli {' '.join(args)}\n  {difference}")
    print(f"{len(asked)} commands, {count} differences")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
