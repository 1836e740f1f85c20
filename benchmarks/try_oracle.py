"""The page "Try it" asked of recorded models in Chromium: equal to the commands' JSON, to the character?

usage: python benchmarks/try_oracle.py FOLDER [FOLDER ...]

Each FOLDER holds records of models, a JSON file each, with the `config` of a config.json and figures of its
published code: `params`, `flops` by length, `flops_decode_1_token`, `kv` by length. Every config is asked for
these figures in a headless Chromium, in which the page is built anew, and of the command. For each record it
prints a line of CSV:

- questions: command lines asked of both
- equal: of them answered with the same text, an error's lines included
- figures, exact: figures of the record, and how many of them the page gives
- note: the first question that differs, or a figure

try_oracle.csv beside it is its output. chromium, chromedriver and npm must be installed; five minutes.
"""

from __future__ import annotations

import contextlib
import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from archcli.cli import main as archcli
from printed import caught
from trying import answer, built, chromium, site, visit

FIELDS = ("folder", "model", "questions", "equal", "figures", "exact", "note")


def main(folders: list[Path]) -> int:
    """Print the table; 1 where an answer differs."""
    table = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n")
    table.writeheader()
    differ = False
    with TemporaryDirectory() as scratch:
        place = Path(scratch)
        with (
            site(built(place / "site")) as served,
            chromium(place / "profile", served.proxy) as browser,
        ):
            visit(browser, served)
            for folder in folders:
                for file in sorted(folder.glob("*.json")):
                    record = line(browser, folder.name, json.loads(file.read_text()), place)
                    differ |= bool(record["note"])
                    table.writerow(record)
                    sys.stdout.flush()
    return int(differ)


def line(browser: Any, folder: str, record: dict[str, Any], scratch: Path) -> dict[str, Any]:
    """The line of one record."""
    asked: dict[tuple[str, ...], dict[str, str]] = {}
    notes, equal, exact = [], 0, 0
    figures = [*expected(record)]
    config = json.dumps(record["config"])
    for words in dict.fromkeys(words for words, _, _ in figures):
        asked[words] = answer(browser, words, {"config.json": config})
        if asked[words] == command(words, config, scratch):
            equal += 1
        else:
            notes.append(" ".join(words))
    for words, key, truth in figures:
        told = json.loads(asked[words].get("text", "{}")).get("totals", {}).get(key)
        if told == truth:
            exact += 1
        else:
            notes.append(f"{' '.join(words)}: {key} {told} for {truth}")
    return {
        "folder": folder,
        "model": record["id"],
        "questions": len(asked),
        "equal": equal,
        "figures": len(figures),
        "exact": exact,
        "note": "; ".join(notes[:1]),
    }


def expected(record: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """(command line, key of its totals, figure of the record)."""
    yield ("params", "config.json"), "params", record["params"]["total"]
    yield ("params", "config.json"), "active_params", record["params"]["active"]
    for length, counted in sorted(record["flops"].items(), key=lambda item: int(item[0])):
        words = ("flops", "config.json", "--seq-len", length, "--mask", "dense")
        yield words, "matmul_flops", counted["total"]
    decode = record.get("flops_decode_1_token")
    if decode:
        words = (
            "flops",
            "config.json",
            "--phase",
            "decode",
            "--past",
            str(decode["past"]),
            "--mask",
            "dense",
        )
        # the class of a model with latent attention expands the latent of every past token
        form = ("--mla", "naive") if latent(record["config"]) else ()
        yield words + form, "matmul_flops", decode["total"]
    for length, kept in (record["kv"] or {}).items():
        if not kept or "elements" not in kept:
            continue
        words = ("kvcache", "config.json", "--context", length)
        yield words, "elements", kept["elements"]
        if kept.get("state_elements"):
            yield words, "state_elements", kept["state_elements"]
        if kept.get("cross_elements") is not None:
            yield words, "cross_elements", kept["cross_elements"]


def latent(config: dict[str, Any]) -> bool:
    """Whether attention keeps a latent, in the model or in the language model within it."""
    parts = (config, config.get("text_config") or {}, config.get("llm_config") or {})
    return any(part.get("kv_lora_rank") for part in parts)


def command(words: tuple[str, ...], config: str, scratch: Path) -> dict[str, str]:
    """What the program prints in a folder with the config.json, in the form of the page's answer."""
    folder = scratch / "model"  # as the page's: a config.json is named after its folder
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(config)
    sys.argv = ["archcli", *words, "--json"]
    with contextlib.chdir(folder):
        code, printed, errors = caught(archcli)
    return {"text": printed} if code == 0 else {"error": errors.strip()}


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
