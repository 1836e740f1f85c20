"""Costs of parts that go from token to token stand with the kernels that ran them, once."""

from dataclasses import replace

import pytest

from archcli.load.source import load_text
from archcli.measure.flops import count_flops
from archcli.measure.passes import checked_pass
from archcli.modules.spec.request import Request
from archcli.wings.running.profile.charges import charges
from archcli.wings.running.recording.recording import Recording
from archcli.wings.serving.recorded.operations import OpTime
from combinations.hybrids import hybrid

MODEL = load_text(hybrid("mamba2"), "mamba2.yaml").model
H, Q, TOKENS, LAYERS = 4, 4, 10, 2
SCAN = "layers.0.mixer.scan"
QUIET = Recording(
    timed=(),
    ran=(),
    plain_s=(1.0,),
    traced_s=(1.0,),
    framework_s=0.1,
    executed=1,
    counted=1,
    differing=(),
    rejected=0,
    page_faults=0,
    switches_per_s=0.0,
    machine={"device": "cpu"},
)
RAN = OpTime(SCAN, "forward", "cumsum", "recurrence", 0.1, 1)


def charged(phase, *timed):
    counted = checked_pass(MODEL, Request(phase, seq_len=TOKENS))
    by_class = {}
    for charge in charges(MODEL, counted, replace(QUIET, timed=timed)):
        by_class[charge.op_class] = by_class.get(charge.op_class, 0) + charge.times * charge.part.flops
    return by_class


@pytest.mark.parametrize("phase", ["forward", "train"])
def test_running_sums_have_their_flops_where_they_have_their_time(phase):
    without, beside = charged(phase), charged(phase, RAN)
    assert beside["recurrence"] == LAYERS * TOKENS * H
    assert beside["elementwise"] == without["elementwise"] - beside["recurrence"]
    assert sum(beside.values()) == sum(without.values())


def test_the_backward_goes_by_its_own_kernels():
    backward = RAN._replace(phase="backward")
    assert charged("train", backward)["recurrence"] == LAYERS * TOKENS * H
    assert charged("train", RAN, backward)["recurrence"] == 2 * LAYERS * TOKENS * H


def test_counts_know_no_such_class():
    assert "recurrence" not in count_flops(MODEL, Request(seq_len=TOKENS)).totals["by_class"]
