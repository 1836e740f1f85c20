"""Four variations of a tower's config are exact, left out or refused with a reason; the script makes 20."""

import json

import pytest

from mappings.mutate_towers import TABLE, classes, said, verdicts

CLASSES = classes()
N = 4


@pytest.mark.sample(0)
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
@pytest.mark.parametrize("kind", CLASSES)
def test_a_variation_is_exact_or_has_a_reason(kind):
    found = [(said(changed), answer) for changed, answer in verdicts(kind, CLASSES[kind], f"ci {kind}", N)]
    assert found
    assert [(changed, answer) for changed, answer in found if answer.verdict in ("wrong", "traceback")] == []
    assert all(answer.what for _, answer in found if answer.verdict == "lacks")


def test_the_table_of_the_script_has_no_wrong_one():
    table = json.loads(TABLE.read_text())
    assert {name for counts in table.values() for name in counts} <= {
        "exact",
        "exact, parameters alone",
        "lacks",
    }
