"""Every op: what its backward keeps, equal to what torch saves of one run, storage by storage."""

from collections import Counter

import pytest
import torch

from ops.cases import CASES
from ops.kept_checks import SETTINGS, differences, in_training_form, stated
from ops.kept_pending import PENDING

torch.set_num_threads(1)
READY = [
    name
    for name, case in CASES.items()
    if type(case.op).__name__ not in PENDING and in_training_form(case.op)
]


def wrong(case, told=stated):
    """By setting, where the op's word (or that of `told`) and torch's run differ."""
    found = {setting: differences(case, how, told) for setting, how in SETTINGS.items()}
    return {setting: unequal for setting, unequal in found.items() if unequal}


@pytest.mark.sample(30)
@pytest.mark.parametrize("name", READY)
def test_kept_is_what_torch_saves(name):
    assert wrong(CASES[name]) == {}


@pytest.mark.sample(3, second=100)
@pytest.mark.parametrize("name", READY)
def test_every_entry_of_a_rule_is_needed(name):
    """Without one of its entries, or with half of its bytes, a rule is seen to be wrong."""
    entries = set()

    def listed(op, call, shapes):
        entries.update(stated(op, call, shapes))
        return stated(op, call, shapes)

    wrong(CASES[name], listed)
    for entry in entries:
        assert wrong(CASES[name], lambda *asked, entry=entry: without(stated(*asked), entry))
        assert entry[0] != "new" or wrong(
            CASES[name], lambda *asked, entry=entry: halved(stated(*asked), entry)
        )


def without(kept, entry):
    """What is kept, less all like this entry."""
    return Counter({key: count for key, count in kept.items() if key != entry})


def halved(kept, entry):
    """What is kept, those like this entry in half the bytes."""
    rest = without(kept, entry)
    rest["new", entry[1] // 2] += kept[entry]
    return rest


def test_pending_ops_are_still_wrong():
    """Whoever mends the rule of an op takes it off the list."""
    waiting = {type(case.op).__name__ for case in CASES.values()} & PENDING
    assert waiting == PENDING
    for name in PENDING:
        assert any(_fails(case) for case in CASES.values() if type(case.op).__name__ == name), name


def _fails(case):
    try:
        return bool(wrong(case))
    except NotImplementedError:
        return True
