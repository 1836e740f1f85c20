"""The same question gives the same answer: alone in its process, among others in one, and in Python."""

import json
import random
import runpy
from pathlib import Path

import pytest

import archcli as package

ROOT = Path(__file__).parents[2]
ARCHIVE = runpy.run_path(str(ROOT / "benchmarks" / "archive.py"))
PYTHON = ("params", "flops", "kvcache", "memory", "predict", "compare", "explain", "scale", "sweep")
SHORT = {"-b": "batch_size", "-s": "seq_len"}


def drawn(seed, count):
    """Command lines of benchmarks/archive.py, each subcommand as often as the others."""
    presets = [path.stem for path in sorted((ROOT / "presets").glob("*.yaml"))]
    lines = {}
    for args in ARCHIVE["commands"](presets, [], []):
        lines.setdefault(args[0], []).append(args)
    draw = random.Random(seed)  # noqa: S311 - a sample of questions
    verbs = [verb for verb in lines if verb in {*PYTHON, "show", "check"}]
    return [draw.choice(lines[verbs[i % len(verbs)]]) for i in range(count)]


def called(args):
    """What the Python function of a command answers, as the JSON of the command has it."""
    words, options = [], {}
    rest = iter(args[1:])
    for word in rest:
        if word.startswith("-"):
            value = next(rest)
            options[SHORT.get(word) or word[2:].replace("-", "_")] = int(value) if value.isdigit() else value
        else:
            words.append(word)
    report = getattr(package, args[0])(*words, **options)
    return ARCHIVE["without_times"](json.loads(json.dumps(report.to_dict())))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_a_question_asked_again_has_the_same_answer(part, archcli):
    asked, in_python = drawn(part, 12), 0
    together = ARCHIVE["answers"](ROOT, asked, 1)
    for args, answer in zip(asked, together, strict=True):
        done = archcli(*args, "--json")
        alone = ARCHIVE["Answer"](done.returncode, done.stdout, done.stderr).read()
        assert alone == answer.read(), args
        if args[0] in PYTHON and answer.code == 0:
            in_python += 1
            assert called(args) == answer.read()["out"], args
    assert in_python > 5
