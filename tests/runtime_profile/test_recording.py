"""What a recording must be, whatever the machine and however long things take: complete, consistent with the rows, and gone afterwards."""

import pytest

from runtime_profile.tiny import MODELS, PHASES, profiled

CASES = [(name, phase, attention) for name in MODELS for phase in PHASES for attention in ("sdpa", "eager")]


@pytest.mark.parametrize(("name", "phase", "attention"), CASES)
def test_the_trace_shows_every_operation_the_census_has(name, phase, attention):
    _, recording = profiled(MODELS[name], phase, attention)
    assert recording.differing == ()
    assert recording.counted == recording.executed > 0
