"""The stages of the tests, of which the fast one imports no torch; and tables that are one test."""

import importlib.util
import inspect
import os
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages import TESTS, needs_torch
from table import every_row, sampled_rows

COLLECT = """
import sys, pytest
pytest.main(["-n0", "-q", "--collect-only", "-m", "{}", "-p", "no:cacheprovider"])
print("torch was imported" if "torch" in sys.modules else "no torch")
"""


def collected(stage):
    """Names of the tests of a stage, and what is said of torch."""
    command = [sys.executable, "-c", COLLECT.format(stage)]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=200, check=True)
    lines = done.stdout.splitlines()
    return {line for line in lines if "::" in line}, lines[-1]


@pytest.mark.long
def test_the_fast_stage_imports_no_torch():
    names, torch = collected("fast")
    assert torch == "no torch"
    assert len(names) > 2000


@pytest.mark.long
def test_no_test_of_the_fast_stage_imports_torch_while_it_runs():
    """Of 40 files: all of them have run in the quick stage, where others have imported torch."""
    files = [file for file in sorted(TESTS.rglob("test_*.py")) if not needs_torch(file)]
    chosen = Random("fast").sample(files, 40)  # noqa: S311 - the same in every run
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-q",
        "-m",
        "fast",
        "-p",
        "no:cacheprovider",
        *map(str, chosen),
    ]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def examples():
    """What a property test draws."""
    drawn = []

    @given(st.lists(st.integers(), min_size=40))
    def draw(numbers):
        drawn.append(numbers)

    draw()
    return drawn


@pytest.fixture
def same_examples(request):
    """Skip where the command asks for new examples."""
    if settings.get_current_profile_name() != "same":
        pytest.skip("this run draws new examples")


def test_examples_are_the_same_in_every_run(same_examples):
    assert settings.default.derandomize
    assert settings.default.database is None


def test_examples_do_not_depend_on_loaded_modules(same_examples, tmp_path, monkeypatch):
    before = examples()
    (tmp_path / "loaded.py").write_text(f"NUMBERS = {[*range(10**6, 10**6 + 900)]}")
    spec = importlib.util.spec_from_file_location("loaded", tmp_path / "loaded.py")
    monkeypatch.setitem(sys.modules, "loaded", importlib.util.module_from_spec(spec))
    assert examples() == before


PRINT_EXAMPLES = """
import pytest
from hypothesis import given, settings, strategies as st

@given(st.lists(st.integers(0, 10**9), min_size=3))
def test_prints(numbers):
    print(settings.get_current_profile_name(), settings.default.max_examples, numbers)
"""


def printed_examples(folder, *options, **variables):
    """Lines of a property test that prints its examples, run with this project's conftest."""
    file = folder / "test_printed.py"
    file.write_text(PRINT_EXAMPLES)
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | variables
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n0",
        "-qs",
        "-p",
        "no:cacheprovider",
        f"--rootdir={TESTS.parent}",
    ]
    command += [
        f"-c{TESTS.parent / 'pyproject.toml'}",
        f"--confcutdir={TESTS}",
        "-pconftest",
        str(file),
        *options,
    ]
    done = subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, check=True, timeout=200
    )
    return [line for line in done.stdout.splitlines() if "[" in line and "]" in line]


@pytest.mark.long
def test_a_profile_or_a_seed_draws_new_examples(tmp_path):
    same = printed_examples(tmp_path)
    assert same[0].startswith("same 10 [")
    assert printed_examples(tmp_path, CI="true", PYTHONHASHSEED="7") == same
    new = printed_examples(tmp_path, "--hypothesis-profile=random")
    assert new[0].startswith("random 10 [")
    assert printed_examples(tmp_path, "--hypothesis-profile=random") != new
    seeded = printed_examples(tmp_path, "--hypothesis-profile=random", "--hypothesis-seed=3")
    assert seeded not in (same, new)
    assert printed_examples(tmp_path, "--hypothesis-seed=3") == seeded
    assert printed_examples(tmp_path, "--hypothesis-profile=random", "--hypothesis-seed=4") != seeded
    assert printed_examples(tmp_path, "-m", "long or not long")[0].startswith("same 300 [")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("runtime/model/test_module.py", True),  # itself
        ("parity/test_rope_scaling.py", True),
        ("commands/test_profile_against_flops.py", True),  # by a helper, tests/helpers/recordings.py
        ("load/test_source.py", False),
        ("rules/test_robust.py", False),
    ],
)
def test_files_that_import_torch_are_known_unimported(file, expected):
    assert needs_torch(TESTS / file) is expected


def failing(test, **fixtures):
    with pytest.raises(AssertionError) as caught:
        test(**fixtures)
    return str(caught.value).splitlines()


def test_a_table_tries_every_row_and_tells_those_that_fail():
    tried = []

    @every_row("base", [10, 16])
    @every_row(("text", "value"), [("7", 7), ("11", 11), ("x", 0), ("9" * 5000, 1)])
    def reads(text, value, base, sign):
        tried.append((text[:2], base))
        assert int(text, base) == sign * value, "another number"

    told = failing(reads, sign=1)
    assert told[0] == "5 rows fail"
    assert told[1] == "[10-x-0] ValueError: invalid literal for int() with base 10: 'x'"
    assert told[2].startswith(f"[10-{'9' * 60}-1] ValueError: Exceeds the limit (4300 digits)")
    assert told[3] == "[16-11-11] AssertionError: another number"
    assert tried == [(text, base) for base in (10, 16) for text in ("7", "11", "x", "99")]
    assert [*inspect.signature(reads).parameters] == ["sign"]


def test_a_sampled_table_tries_every_row_once_in_its_stages():
    tried = []

    @sampled_rows("n", range(10), 3, lots=4)
    def reads(n, sign):
        tried.append(sign * n)

    assert [*inspect.signature(reads).parameters] == ["lot", "sign"]
    [mark] = reads.pytestmark
    first, *others = mark.args[1]
    assert [(case.id, [mark.name for mark in case.marks]) for case in mark.args[1]] == [
        ("sample", []),
        *((f"lot{i}", ["long"]) for i in range(4)),
    ]
    reads(first.values[0], sign=1)
    assert len(tried) == 3
    for case in others:
        reads(case.values[0], sign=1)
    assert sorted(tried) == [*range(10)]


def test_a_row_that_skips_or_reaches_no_error_fails():
    @every_row("outcome", [pytest.skip, pytest.fail, str], ids=["skips", "fails", "passes"])
    def ends(outcome):
        outcome("so")

    assert failing(ends) == ["2 rows fail", "[skips] Skipped: so", "[fails] Failed: so"]


def test_a_table_without_rows_is_refused():
    with pytest.raises(AssertionError, match="a table without rows shows nothing"):
        every_row("name", [])
