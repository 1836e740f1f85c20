"""Write what every command answers for every preset into one archive, and compare two of them.

usage: python benchmarks/archive.py write CHECKOUT FILE.zip [--only TEXT] [--jobs N]
       python benchmarks/archive.py compare OLD NEW [--only TEXT] [--jobs N]

OLD and NEW are checkouts or archives. `compare` prints every difference of the JSON with its place in it, and
exits 1 where there is one. Models are the presets and config.json files that both sides hold. With --only,
only commands whose line contains the text are asked. N processes answer all commands of a checkout.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

# a process of a checkout: argument lists come in as JSON, one a line, and [exit code, output, errors] go out
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
CONFIGS = ("tests/oracle/configs/*.json", "tests/load/huggingface/real_files/*.json")
PASSES = ("forward", "train", "prefill", "decode")
PHASES = (*PASSES, "serve")
QUANTITIES = ("params", "flops", "kvcache")
TEXT_COMMANDS = {"schema", "--help"}
SUMS = "SHA256SUMS"
MEASURED = {"elapsed_s"}
"""Keys of JSON whose values are times of this run."""


class Answer(NamedTuple):
    """What a command gave: its exit code, or its traceback's last line; its output; its errors."""

    code: int | str
    out: str
    err: str

    def read(self) -> dict[str, Any]:
        """The parts that two answers are compared by: JSON where the output is JSON, else lines."""
        return {"exit": self.code, "out": _parsed(self.out), "err": self.err.splitlines()}

    def packed(self) -> bytes:
        """The same as a file of the archive."""
        return json.dumps(self.read(), indent=1).encode()


def commands(models: list[str], codes: list[str], verbs: list[str]) -> Iterator[list[str]]:
    """Yield every argument list that a checkout is asked: of models, rules and subcommands."""
    presets = [model for model in models if not model.endswith(".json")]
    yield from ([verb] for verb in ("list", "survey", "rules", "families", "devices"))
    yield from (["schema"], ["schema", "--of", "profile"], ["--help"])
    yield from ([verb, "--help"] for verb in verbs)
    yield from (["rule", code] for code in codes)
    for model in models:
        yield from counts_of(model)
    for preset in presets:
        yield from answers_of(preset)
    yield from (["compare", *pair] for pair in pairwise(presets))


def counts_of(model: str) -> Iterator[list[str]]:
    """Yield the commands that count one model or judge its shape."""
    yield from ([verb, model] for verb in ("params", "kvcache", "show"))
    yield ["params", model, "--dtype", "fp32", "--depth", "9"]
    yield ["kvcache", model, "-b", "3", "--context", "100000"]
    yield ["check", model, "--exit-zero"]
    for phase in PASSES:
        past = ["--past", "33"] if phase in {"prefill", "decode"} else []
        yield ["flops", model, "--phase", phase, "-b", "2", "-s", "100", *past]
        yield ["flops", model, "--phase", phase, "--mask", "dense"]


def answers_of(preset: str) -> Iterator[list[str]]:
    """Yield the commands that ask for memory, time, formulas and other shapes of one preset."""
    yield ["kvcache", preset, "--memory", "80GB"]
    for phase in PHASES:
        yield ["memory", preset, "--phase", phase, "--device", "8xh100-sxm"]
        yield ["predict", preset, "--phase", phase, "--device", "8xh100-sxm"]
    yield ["memory", preset, "--phase", "train", "-b", "2", "-s", "512"]
    yield ["predict", preset, "--phase", "decode", "--device", "rtx-4090", "-b", "4", "--past", "1000"]
    yield from (["explain", preset, quantity] for quantity in QUANTITIES)
    yield ["scale", preset, "--params", "1B"]
    yield ["sweep", preset, "--vary", "vocab_size=1000:64000:1000", "--minimize", "params"]


def models_of(checkout: Path) -> list[str]:
    """Names of the presets of a checkout, and paths of its config.json files from its root."""
    presets = sorted(path.stem for path in checkout.glob("presets/*.yaml"))
    configs = sorted(str(path.relative_to(checkout)) for each in CONFIGS for path in checkout.glob(each))
    return presets + configs


def asked_of(checkout: Path, models: list[str], only: str) -> list[list[str]]:
    """The argument lists that contain the text `only`."""
    rules, listed = answers(checkout, [["rules"], ["--help"]], jobs=1)
    codes = [row["code"] for row in json.loads(rules.out)["rows"]]
    verbs = re.findall(r"^  ([a-z]+)  ", listed.out, re.MULTILINE)
    return [args for args in commands(models, codes, verbs) if only in " ".join(args)]


def answers(checkout: Path, asked: list[list[str]], jobs: int) -> list[Answer]:
    """What a checkout answers to argument lists, in their order; process i answers every `jobs`-th from i."""
    with ThreadPoolExecutor(jobs) as pool:
        shares = list(pool.map(lambda i: _answers(checkout, asked[i::jobs]), range(jobs)))
    return [shares[i % jobs][i // jobs] for i in range(len(asked))]


def _answers(checkout: Path, asked: list[list[str]]) -> list[Answer]:
    lines = "".join(f"{json.dumps(_as_json(args))}\n" for args in asked)
    done = subprocess.run(
        [sys.executable, "-c", WORKER],
        cwd=checkout,  # `-c` imports from the current folder first
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Answer(*json.loads(line)) for line in done.stdout.splitlines()]


def _as_json(args: list[str]) -> list[str]:
    """The same with JSON for output, but for help and `schema`, which prints it in any case."""
    return args if TEXT_COMMANDS & set(args) else [*args, "--json"]


def _parsed(text: str) -> Any:
    try:
        return without_times(json.loads(text))
    except json.JSONDecodeError:
        return text.splitlines()


def without_times(value: Any) -> Any:
    """The same JSON without what was measured while it was made."""
    if isinstance(value, dict):
        return {key: without_times(inner) for key, inner in value.items() if key not in MEASURED}
    return [without_times(inner) for inner in value] if isinstance(value, list) else value


def archived(checkout: Path, only: str, jobs: int, models: list[str] | None = None) -> dict[str, bytes]:
    """The files of an archive: what each command answers, by its command line."""
    asked = asked_of(checkout, models_of(checkout) if models is None else models, only)
    given = answers(checkout, asked, jobs)
    return {" ".join(args): answer.packed() for args, answer in zip(asked, given, strict=True)}


def write(path: Path, files: Mapping[str, bytes]) -> None:
    """Write an archive: a file for each command line, and the SHA-256 of each in one more."""
    hashes = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items())
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, data in {**files, SUMS: hashes.encode()}.items():
            # ZipInfo's date is fixed: equal answers make equal archives
            archive.writestr(ZipInfo(name), data, ZIP_DEFLATED)


def read(path: Path, only: str) -> dict[str, bytes]:
    """The files of an archive whose command line contains the text `only`."""
    with ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name != SUMS and only in name]
        return {name: archive.read(name) for name in names}


def both(old: Path, new: Path, only: str, jobs: int) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of two checkouts or archives; of two checkouts, for the models that both hold."""
    if old.is_dir() and new.is_dir():
        models = [model for model in models_of(old) if model in set(models_of(new))]
        return archived(old, only, jobs, models), archived(new, only, jobs, models)
    first, second = (archived(at, only, jobs) if at.is_dir() else read(at, only) for at in (old, new))
    return first, second


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


def compare(old: Mapping[str, bytes], new: Mapping[str, bytes]) -> int:
    """Print the differences of commands that both hold; how many there are, and commands of one alone."""
    count = 0
    for name in [name for name in old if name in new and old[name] != new[name]]:
        for difference in differences(json.loads(old[name]), json.loads(new[name])):
            count += 1
            print(f"archcli {name}\n  {difference}")
    alone = sorted(set(old) ^ set(new))
    for name in alone:
        print(f"archcli {name}\n  asked of {'the old' if name in old else 'the new'} alone")
    print(f"{len(set(old) & set(new))} commands, {count + len(alone)} differences")
    return count + len(alone)


def main() -> None:
    """Write or compare; exit 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("action", choices=("write", "compare"))
    parser.add_argument("first", type=Path, metavar="CHECKOUT|OLD")
    parser.add_argument("second", type=Path, metavar="FILE.zip|NEW")
    parser.add_argument("--only", default="", help="only commands whose line contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes of a checkout")
    given = parser.parse_args()
    if given.action == "write":
        write(given.second, archived(given.first, given.only, given.jobs))
        return
    sys.exit(compare(*both(given.first, given.second, given.only, given.jobs)) > 0)


if __name__ == "__main__":
    main()
