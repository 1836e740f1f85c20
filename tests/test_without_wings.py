"""The core works in a copy without any wing, and its commands and Python functions without each."""

import re

import pytest

from without_wings import WINGS, without

ASKED = "cli help first_lines one_way_to_name names_refused completion outsiders params_of_a_checkpoint"
ASKING = (*(f"tests/commands/test_{name}.py" for name in ASKED.split()), "tests/test_wings.py")
"""Tests of what a user asks, which meet what is not here."""


def passed(printed):
    """How many tests passed, by the last line of pytest."""
    return int(re.search(r"(\d+) passed", printed.splitlines()[-1])[1])


@pytest.mark.long
def test_the_core_passes_its_tests_without_any_wing():
    code, printed = without(WINGS, ())
    assert code == 0, printed
    assert passed(printed) > 1500


@pytest.mark.long
def test_each_wing_can_be_left_out():
    for wing in WINGS:
        code, printed = without([wing], ASKING)
        assert code == 0, f"without {wing}\n{printed}"
        assert passed(printed) > 20
