"""Kept bytes of recurrent mixers, whose scans go over tokens in chunks; the last one may be short."""

import pytest

from archcli.load.source import load
from archcli.runtime.memory.models import WitnessSetting
from kept_compared import differences, saved_by_row

SMALL = {
    "mamba2-2.7b": ("n_layers=3", "d_model=64", "n_heads=4", "head_dim=32", "state=16", "chunk=32"),
    "retnet-6.7b": (
        *("n_layers=3", "d_model=64", "n_heads=4", "key_head_dim=16", "value_head_dim=32", "chunk=32"),
        "d_ff=64",
    ),
}
"""Presets with what makes them small: widths of their own, and chunks of which 64, 80 and 150 tokens have
several."""
SETTINGS = {
    "cuda": WitnessSetting(),
    "cuda-fp32": WitnessSetting(dtype="fp32"),
    "cpu": WitnessSetting(backend="cpu"),
    "cpu-fp32": WitnessSetting("fp32", backend="cpu"),
}
SIZES = ((2, 64), (3, 80), (1, 150))


@pytest.mark.sample(6)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", SMALL)
def test_kept_bytes_of_recurrent_mixers_are_those_that_autograd_saves(name, setting):
    model = load(name, ["vocab_size=96", *SMALL[name]]).model
    for batch_size, tokens in SIZES:
        assert differences(model, batch_size, tokens, SETTINGS[setting]) == {}
    assert sum(saved_by_row(model, 2, 64, SETTINGS[setting]).values()) > 0
