"""Random command lines, right and broken, read without typer: the program's answers and errors."""

import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Literal, get_args, get_origin

import pytest

from archcli.cli import main
from archcli.commands.line.names import COMMANDS, place_of
from archcli.plugins import imported
from archcli.wings.doors.line.ask import ELSEWHERE, run_line
from archcli.wings.doors.line.words import parameters_of
from printed import caught
from tiny_model import TINY

SEED, LINES = 31, 300
ASKED = [
    name for name in COMMANDS if name not in {*ELSEWHERE, "families", "schema", "list", "survey", "report"}
]
"""What is answered at once; the others have no options of a kind of their own."""
LEFT_OUT = {"files", "this", "fit", "curve", "vary", "measured", "write_yaml"}
"""Options that look at this machine, take seconds, or write files."""
COUNTS = ("1", "2", "8", "1k", "1Ki", "1e1", "1_0", "0", "-1", "1.5", "NaN", "x", "", " 2", "+2", "٣")
VALUES = {
    "count": COUNTS,
    "tokens": COUNTS,
    "bytes": ("80GiB", "1e11", "8 GB", "80", "-3GB", "80QB", ""),
    "number": ("0.5", ".9", "1", "1e-1", "2", "0", "-1", "NaN", "inf", "x", ""),
    "text": ("bf16", "FP16", "fp8", "q8_0", "q4_k_m", "fp7", ""),
    "picture": ("-", "x.foo"),
}
"""Texts by how they are read, right and wrong ones."""
WORDS = {
    "model": ("tiny.yaml", "gpt2", "gtp2", "nowhere.yaml", "", "-x"),
    "device": ("h100-sxm", "2xl4", "l4", "H100 SXM", "h1000", ""),
    "set": ("d_ff=64", "n_layers=3", "d_ff=0", "nothing=1", "d_ff", ""),
    "where": ("params>1", "params>", "size>1"),
    "what": ("params", "flops", "memory"),
}
OTHERS = ("none", "all", "FFN001", "layer", "x", "")


def values(parameter):
    """The texts that an option or an argument may be given."""
    kinds = [parameter.kind, *get_args(parameter.kind)]
    choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())
    if choices:
        return (*choices, choices[0].upper(), choices[-1][:-1], "")
    if Path in kinds:
        return ("-",) if parameter.option.reads != "picture" else VALUES["picture"]
    name = parameter.option.name or parameter.name
    return VALUES.get(parameter.option.reads) or WORDS.get(name.removesuffix("s"), OTHERS)


def spelled(parameter, random):
    """The words of an option, as people and scripts write them."""
    name = random.choice([*parameter.names])
    if random.random() < 0.05:
        at = random.randrange(1, len(name))
        name = name[:at] + name[at + 1 :] or "-"
    if parameter.switches:
        return [name + random.choice(("", "", "", "=1", "x"))]
    value = random.choice(values(parameter))
    wide = [[name, value], [f"{name}={value}"]]
    narrow = [[name, value], [f"{name}{value}"], [f"{name}={value}"]]
    return random.choice(wide if name.startswith("--") else narrow)


def command_line(random):
    """A subcommand with its arguments and a few options, in any order."""
    name = random.choice(ASKED)
    known = parameters_of(imported(place_of(name)))
    parameters = [it for it in known if it.name != "help"]
    words = []
    for parameter in parameters:
        if parameter.option.argument:
            number = 2 if name == "compare" else random.choice((1, 1, 1, 1, 0, 2))
            texts = values(parameter)
            words.append(random.choices(texts[:2] if random.random() < 0.9 else texts, k=number))
    options = [it for it in parameters if it.names and it.name not in LEFT_OUT]
    words += [spelled(it, random) for it in random.choices(options, k=random.randrange(4))]
    if name in {"predict", "fit"} and random.random() < 0.8:
        words.append(["--device", "h100-sxm"])
    random.shuffle(words)
    return [name, *(word for group in words for word in group)]


@pytest.mark.long
def test_random_command_lines_are_answered_as_the_program_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # what is free of this machine changes between two answers
    monkeypatch.setattr("archcli.wings.serving.recorded.machine.available_memory", lambda *_: 8 << 30)
    Path("tiny.yaml").write_text(TINY)
    random, differing, codes = Random(SEED), [], Counter()  # noqa: S311 - a sample
    for _ in range(LINES):
        argv = command_line(random)
        monkeypatch.setattr(sys, "argv", ["archcli", *argv])
        here = caught(lambda argv=argv: run_line(argv))
        if "none is written here" in here[2]:  # of `-o=-`, where the program writes a file `=-`
            codes["files"] += 1
            continue
        codes[here[0]] += 1
        if here != caught(main):
            differing.append(argv)
    assert differing == []
    # neither nearly all errors nor hardly any
    assert codes[0] > LINES // 10
    assert codes[2] > LINES // 10
    assert codes["files"] < LINES // 20
