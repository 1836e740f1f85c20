"""The stages of the tests: the fast one imports no torch, and is most of what needs none."""

import subprocess
import sys

import pytest

from stages import TESTS, needs_torch

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
    assert len(names) > 3000


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
