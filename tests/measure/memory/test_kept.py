"""Bytes kept for the backward: equal to what torch's autograd saves, storage by storage."""

import pytest

from archcli.load.source import load
from archcli.runtime.memory.models import WitnessSetting
from kept_compared import differences, saved_by_row

MODELS = ("gpt2", "llama-3.2-1b", "qwen3-8b")
SETTINGS = {
    "cuda": WitnessSetting(),
    "cuda-fp32": WitnessSetting(dtype="fp32"),
    "cuda-eager": WitnessSetting(attention="eager"),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", MODELS)
def test_kept_bytes_are_those_that_autograd_saves(name, setting):
    model = load(name, ["n_layers=4"]).model
    assert differences(model, 2, 64, SETTINGS[setting]) == {}
    assert differences(model, 3, 80, SETTINGS[setting]) == {}
    assert sum(saved_by_row(model, 2, 64, SETTINGS[setting]).values()) > 0
