"""Which tests run when: `fast` needs no torch, `long` is the second stage, `unsampled` cases are in no stage.

See docs/testing.md.
"""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from random import Random

TESTS = Path(__file__).parents[1]
MOST_LONG = 1
"""Cases of one test in the second stage, but of a whole table; `tests/unsampled.py` runs the others."""
TORCH = {"torch", "transformers", "fvcore", "safetensors"}


def stage_of(config):
    """The stage that pytest runs: quick, long or whole by its -m; rest, of all cases, by --unsampled."""
    stages = {"not long": "quick", "fast": "quick", "long": "long"}
    return "rest" if config.option.unsampled else stages.get(config.option.markexpr, "whole")


@cache
def needs_torch(path):
    """Whether importing a file of the tests imports torch.

    Itself, by the package's runtime, or by a helper.
    """
    seen, waiting = set(), [path]
    while waiting:
        file = waiting.pop()
        names = () if file in seen else top_level_imports(file)
        seen.add(file)
        if any(
            name.split(".")[0] in TORCH or name.startswith("archcli.wings.running.runtime") for name in names
        ):
            return True
        waiting += [helper for name in names for helper in helpers(name)]
    return False


def is_long(path):
    """Whether every test of a file is marked `long` by itself; the quick stage need not import it."""
    source = path.read_text()
    tests, long = (
        re.findall(rf"^{line}", source, re.MULTILINE) for line in (r"def test_", r"@pytest\.mark\.long$")
    )
    return len(tests) == len(long) > 0


@cache
def top_level_imports(path):
    """Dotted names that a file imports at its top level; of `from a import b` both a and a.b."""
    return tuple(imported_names(ast.parse(path.read_text())))


def imported_names(tree):
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def helpers(name):
    """Files of the tests that are imported by this dotted name."""
    place = name.replace(".", "/")
    candidates = [f"{place}.py", f"{place}/__init__.py"]
    paths = [folder / candidate for folder in (TESTS, TESTS / "helpers") for candidate in candidates]
    return [path for path in paths if path.is_file()]


def staged(items, stage):
    """Cases of one test function, marked `long`, `unsampled` or neither; those that the stage runs or skips.

    What lies beyond the samples of a stage is not even collected in it.
    """
    for item in beyond_samples(items):
        item.add_marker("long")
    for item in beyond_second_stage(items) if stage != "quick" else ():
        item.add_marker("unsampled")
    if stage == "rest":
        return items
    items = [item for item in items if not has(item, "unsampled")]
    return [item for item in items if not has(item, "long")] if stage == "quick" else items


def beyond_second_stage(items):
    """The cases of one test that are `long` beyond a seeded MOST_LONG of them; none of a `whole` table."""
    cases = [item for item in items if has(item, "long") and not (has(item, "unsampled") or whole(item))]
    seed = Random(getattr(items[0], "originalname", "") if items else "")  # noqa: S311 - the same in every run
    order = sorted(item.name for item in cases)
    seed.shuffle(order)
    kept = set(order[:MOST_LONG])
    return [item for item in cases if item.name not in kept]


def whole(item):
    """Whether the second stage runs all that the first leaves out: the cases of this table are quick."""
    sample = item.get_closest_marker("sample")
    return sample is not None and sample.kwargs.get("whole", False)


class Call:
    """A case of a table that pytest has not yet made a test of."""

    def __init__(self, function_marks, callspec, path):
        self.callspec, self.path = callspec, path
        self.marks = {**{mark.name: mark for mark in callspec.marks}, **function_marks}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, name):
        self.marks[name] = name


def first_stage(definition, calls):
    """Of the calls of a test function those of the quick stage; one at least, or pytest makes one up.

    Of 47,000 cases 7,000 are left: making tests of the others took a tenth of the collection.
    """
    marks = {mark.name: mark for mark in reversed([*definition.iter_markers()])}
    cases = staged([Call(marks, call, definition.path) for call in calls], "quick")
    return [case.callspec for case in cases] or calls[:1]


def mark_stages(items, examples_are_long, asks_for_fast):
    """Mark tests of hypothesis `long` where they have many examples, and `fast` what imports no torch.

    `fast` is left out where nobody asks for it: to know it, every file of the tests is parsed.
    """
    for item in items:
        if examples_are_long and hasattr(item.function, "hypothesis"):
            item.add_marker("long")
        slow = has(item, "long") or has(item, "torch")
        if asks_for_fast and not slow and not needs_torch(item.path):
            item.add_marker("fast")


def has(item, mark):
    """Whether a test carries a mark."""
    return item.get_closest_marker(mark) is not None


def beyond_samples(items):
    """Yield the cases of a table marked `sample(n, per=key)` beyond a seeded n a key."""
    tables = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("sample"):
            key = mark.kwargs.get("per", lambda **_: None)(**item.callspec.params)
            tables[key].append(item)
    for key, cases in tables.items():
        seed = Random(f"{cases[0].path.name} {key}")  # noqa: S311 - tests of one table choose the same cases
        [count] = cases[0].get_closest_marker("sample").args
        quick = set(seed.sample(cases, min(count, len(cases))))
        yield from (case for case in cases if case not in quick)


def family(item):
    """A sort key of tests: those of one family of models follow each other and share its reference."""
    name = shares_references(item.path) and hasattr(item, "callspec") and item.callspec.params.get("name")
    return name if isinstance(name, str) else ""


@cache
def shares_references(path):
    """Whether tests of a file build classes of transformers, which the next test may use again."""
    rooms = ("parity", "load/huggingface")
    return any(path.is_relative_to(TESTS / room) for room in rooms) and needs_torch(path)
