"""What a profile counts is what `archcli flops` counts.

Of the mask exactly, and of what ran, masked scores too.
"""

import pytest

from archcli.measure.flops import count_flops
from archcli.ops import Linear
from archcli.wings.running.profile.reports.one import profile_of
from recordings import MODELS, PHASES, RUNS, profiled, question


def report(name, phase, attention):
    counted, recording = profiled(MODELS[name], phase, attention)
    return counted, recording, profile_of(MODELS[name], counted, recording, {"phase": phase, "dtype": "fp32"})


@pytest.mark.sample(1)
@pytest.mark.parametrize(("name", "phase"), RUNS)
def test_contractions_are_those_of_flops_counted_exactly_and_run_densely(name, phase):
    _, recording, found = report(name, phase, "eager")
    asked = [count_flops(MODELS[name], question(phase), mask=mask).totals for mask in ("exact", "dense")]
    exact, dense = (totals["by_class"]["contraction"] for totals in asked)
    assert found.totals["by_class"]["contraction"]["flops"] == exact > 0
    assert found.totals["by_class"]["contraction"]["executed_flops"] == dense >= exact
    assert found.totals["flops_by_class"]["contraction"] == exact
    assert sum(did.flops for did in recording.census if did.op_class == "contraction") == dense


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("phase", PHASES)
def test_experts_move_the_matrices_of_those_that_were_reached(phase):
    counted, recording, found = report("mixtral", phase, "eager")
    row = next(row for row in counted.rows if row.path == "layers.0.ffn.experts.up_proj")
    (tokens, width), d_ff = row.inputs[0], row.outputs[0][-1]
    assert isinstance(row.op, Linear)
    assert row.times == 2
    reached = [recording.reached[f"layers.{layer}.ffn.experts.up_proj"] for layer in (0, 1)]
    assert all(2 <= each <= 4 for each in reached)  # two of four for each token
    once = tokens * (width + d_ff)
    moves = {"train": 3}.get(
        phase, 1
    )  # the product, and those of both gradients: each reads two of the three and writes the other
    bytes_ = next(line["bytes"] for line in found.rows if line["path"] == "layers.*.ffn.experts.up_proj")
    assert bytes_ == 4 * moves * sum(once + each * width * d_ff for each in reached)
