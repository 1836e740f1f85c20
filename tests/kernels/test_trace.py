"""Kernels of a pass: equal to what torch dispatches, by row, direction, name and number."""

import pytest

from archcli.load.source import load
from archcli.modules.request import Request
from archcli.runtime.memory.models import WitnessSetting
from kernels_compared import differences

MODELS = {
    "gpt2": ["n_layers=4"],
    "llama-3.2-1b": ["n_layers=4"],
    "qwen3-8b": ["n_layers=4"],
    "gemma-2-2b": ["n_layers=7"],
    "gpt-neox-20b": ["n_layers=4"],
    "bert-base-uncased": ["n_layers=4"],
    "bart-large": [],
}
SETTINGS = {
    f"{backend}-{dtype}-{attention}": WitnessSetting(dtype, attention, backend)
    for backend in ("cuda", "cpu")
    for dtype in ("bf16", "fp32")
    for attention in ("sdpa", "eager")
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("phase", ["train", "forward", "prefill", "decode"])
@pytest.mark.parametrize("name", MODELS)
def test_kernels_are_those_that_torch_dispatches(name, phase, setting):
    model = load(name, MODELS[name]).model
    if phase in {"prefill", "decode"} and not model.caches:
        pytest.skip("an encoder keeps no cache")
    assert differences(model, Request(phase, 2, 64), SETTINGS[setting]) == {}
