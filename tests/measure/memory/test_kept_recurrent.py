"""Kept bytes of recurrent mixers, whose scans go over tokens in chunks; the last one may be short."""

import pytest

from archcli.load.source import load
from archcli.wings.running.runtime.memory.models import WitnessSetting
from kept_compared import differences, saved_by_row
from recurrent_models import MIXERS, PRESETS, mixing

SETTINGS = {
    "cuda": WitnessSetting(),
    "cuda-fp32": WitnessSetting(dtype="fp32"),
    "cpu": WitnessSetting(backend="cpu"),
    "cpu-fp32": WitnessSetting("fp32", backend="cpu"),
}


def compare(model, setting, sizes):
    for batch_size, tokens in sizes:
        assert differences(model, batch_size, tokens, SETTINGS[setting]) == {}
    assert sum(saved_by_row(model, *sizes[0], SETTINGS[setting]).values()) > 0


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", MIXERS)
def test_a_mixer_keeps_what_autograd_saves(name, setting, tmp_path):
    compare(mixing(name, tmp_path), setting, ((2, 64), (3, 80), (1, 150)))


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("setting", ["cuda", "cuda-fp32"])
@pytest.mark.parametrize("name", PRESETS)
def test_a_recurrent_preset_keeps_what_autograd_saves(name, setting):
    compare(load(name, ["vocab_size=96", *PRESETS[name]]).model, setting, ((2, 64), (3, 80)))
