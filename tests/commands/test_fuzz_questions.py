"""Valid questions in odd combinations: answered within 10 s, every figure finite and in order.

`python tests/helpers/fuzz/worker.py COMMAND SEED 1` runs one again.
"""

import pytest

from fuzz.driver import SEED, run
from fuzz.valid import VALID

CASES = {"memory": 10, "scale": 4, "explain": 12, "kvcache": 12}
"""How many questions of a command; 16 of one that answers at once."""
FIRST = {"scale": 10}
"""The first seed; of scale behind seed 6, whose 28 different layers take about 10 s."""


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("command", VALID)
def test_valid_questions_are_answered(command):
    cases = CASES.get(command, 16)
    faults, summary = run(command, SEED + FIRST.get(command, 1), cases)
    assert faults == []
    assert 3 * (cases - summary["refused"]) >= 2 * cases, summary
