"""Kernels of scans: equal to what torch dispatches, and one step of a loop that stands for many."""

from collections import Counter

import pytest

from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.functions import pieces
from archcli.wings.serving.launches.trace import trace_kernels
from kernels_compared import PHASES, differences, settings_of
from recurrent_models import MIXERS, PRESETS, mixing

SETTINGS = settings_of("cuda", "cpu", "real")
"""`real` computes with a CPU's real tensors; the others know shapes alone."""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("sizes", [(2, 80), (1, 1), (1, 33), (3, 257)], ids=str)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", MIXERS)
def test_kernels_of_a_mixer_are_those_that_torch_dispatches(name, phase, setting, sizes, tmp_path):
    model, (batch, tokens) = mixing(name, tmp_path), sizes
    assert differences(model, Request(phase, batch, tokens), SETTINGS[setting]) == {}


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", ["cuda-bf16-sdpa", "real-fp32-sdpa"])
@pytest.mark.parametrize(
    "request_",
    [
        Request("prefill", 2, 40, past=80),
        Request("prefill", 1, 150, past=33),
        Request("decode", 2, 40, forms={"scan": "chunked"}),
        Request("prefill", 2, 40, forms={"scan": "recurrent"}),
        Request("train", 2, 40, forms={"scan": "recurrent"}),
    ],
    ids=["continued", "long", "chunked", "recurrent", "trained"],
)
@pytest.mark.parametrize("name", MIXERS)
def test_kernels_of_every_form_are_those_that_torch_dispatches(name, request_, setting, tmp_path):
    assert differences(mixing(name, tmp_path), request_, SETTINGS[setting]) == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", [name for name in SETTINGS if "real" not in name])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", PRESETS)
def test_kernels_of_a_recurrent_preset_are_those_that_torch_dispatches(name, phase, setting):
    model = load(name, ["vocab_size=96", *PRESETS[name]]).model
    assert differences(model, Request(phase, 2, 80), SETTINGS[setting]) == {}


def launched(model, request):
    """How often each kernel of each row runs, with its FLOPs and bytes."""
    total = Counter()
    for run in trace_kernels(model, request, Execution()):
        total[run.path, run.stage, run.kernel] += run.times
    return total


@pytest.mark.sample(2)
@pytest.mark.parametrize("tokens", [130, 159, 160, 161, 225, 450])
@pytest.mark.parametrize("phase", ["train", "prefill"])
@pytest.mark.parametrize("name", MIXERS)
def test_a_step_stands_for_all_that_are_like_it(name, phase, tokens, tmp_path, monkeypatch):
    model, request = mixing(name, tmp_path), Request(phase, 2, tokens)
    folded = launched(model, request)
    monkeypatch.setattr(pieces, "steps_run", lambda n: [(i, 1) for i in range(n)])
    assert folded == launched(model, request)
