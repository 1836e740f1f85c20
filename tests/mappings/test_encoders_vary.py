"""A few variations of each encoder are exact or refused with a reason; the script makes 20."""

import pytest

from mappings.mutate_encoders import ENCODERS, verdicts

N = 3


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
@pytest.mark.parametrize("name", ENCODERS)
def test_a_variation_is_exact_or_has_a_reason(name):
    found = [*verdicts(name, f"ci {name}", N)]
    assert found
    assert [case for case in found if case[1].verdict in ("wrong", "traceback")] == []
    assert all(answer.what for _, answer in found if answer.verdict == "refused")
