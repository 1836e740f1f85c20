"""The presets that stand for all others have every pair of neighbouring operations that any preset has."""

from pathlib import Path

import pytest

import covering
from archcli.load.presets import presets
from covering import COVERING, neighbours


@pytest.mark.long
def test_every_pair_of_neighbours_is_in_a_chosen_preset(renew):
    if renew:
        Path(covering.__file__).with_suffix(".txt").write_text("\n".join(covering.covering()) + "\n")
    seen = set().union(*map(neighbours, COVERING))
    missing = {name: new for name in presets() if (new := neighbours(name) - seen)}
    assert missing == {}, "renew the list: see tests/helpers/covering.py"


def test_neighbours_are_operations_that_follow_each_other():
    pairs = {(first[0], second[0]) for first, second in neighbours("gpt2")}
    assert {("Normalize", "Linear"), ("SplitHeads", "Attend"), ("Attend", "MergeHeads")} <= pairs
    assert ("Linear", "Attend") not in pairs
