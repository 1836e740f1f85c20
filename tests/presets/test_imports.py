"""Each preset is the model that the config.json of the same name imports as, setting by setting.

Also those that logits hardly feel.
"""

import json
from pathlib import Path

import pytest

import archcli
from archcli.load.presets import presets
from archcli.load.source import load, load_text
from archcli.modules import settings
from table import every_row, sampled_rows

CONFIGS = {
    path.stem: path.read_text()
    for path in sorted((Path(__file__).parents[1] / "oracle" / "configs").glob("*.json"))
}
ABOUT = {"name", "source", "released", "series", "sibling_of", "published"}
# a default said aloud; in cs336-small the pairs of Llama's class, which it is counted by, are others
STATED = {
    "cs336-small": {"pairing"},
    "gemma-2-9b": {"scale"},
    "gemma-2b": {"head_dim"},
    "qwen3-8b": {"head_dim"},
    "transformer-base": {"max_seq_len"},
    "transformer-big": {"max_seq_len"},
}
NO_IMPORTER = {"gpt-1"}
# what the released config.json says, and that of transformers, whose class holds none of it, leaves out
RELEASED = {"deepseek-v3": {"num_nextn_predict_layers": 1}, "deepseek-r1": {"num_nextn_predict_layers": 1}}


def stated(model, skipped):
    return {path: value for path, value in settings(model) if path.rpartition(".")[2] not in skipped}


def imported(name):
    """As the class that transformers makes of a config in which none is named: a causal language model."""
    config = json.loads(CONFIGS[name])
    return load_text(
        json.dumps({"architectures": ["ForCausalLM"], **config, **RELEASED.get(name, {})}), "config.json"
    ).model


@sampled_rows("name", sorted(CONFIGS.keys() - NO_IMPORTER), 4)
def test_is_what_its_config_imports_as(name):
    skipped = ABOUT | STATED.get(name, set())
    # the configs leave out how the weights are stored, but for the experts' dtype of DeepSeek-V4: that of
    # released files is compared below
    ours = load(name).model.replace(published_in=None)
    theirs = imported(name).replace(quantization=None, published_in=None)
    assert stated(ours, skipped) == stated(theirs, skipped)


MXFP4 = {"quant_method": "mxfp4"}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
# the quantization_config of the released config.json
PUBLISHED_IN = {
    "gpt-oss-20b": MXFP4,
    "gpt-oss-120b": MXFP4,
    "deepseek-v3": FP8,
    "deepseek-r1": FP8,
    "deepseek-v3.2": FP8,
    "deepseek-v3.1": FP8,
    "kimi-k2": FP8,
    "minimax-m2": FP8,
    "minimax-m2.5": FP8,
    "minimax-m2.7": FP8,
    "mimo-v2-flash": FP8,
    "deepseek-v4-flash": {**FP8, "scale_fmt": "ue8m0"},  # its config.json says expert_dtype, too
    "deepseek-v4-pro": {**FP8, "scale_fmt": "ue8m0"},
    "kimi-k2.5": {},  # compared in test_multimodal.py, whose config states it
    "kimi-k2-thinking": {},
    "bitnet-b1.58-2b-4t": {"quant_method": "bitnet", "quantization_mode": "offline"},
}


@pytest.mark.long
def test_the_presets_that_state_a_form_are_those():
    assert {name for name in presets() if load(name).model.published_in is not None} == {*PUBLISHED_IN}


@sampled_rows("name", sorted(PUBLISHED_IN.keys() & CONFIGS.keys()), 4)
def test_is_stored_as_its_config_says(name):
    config = {**json.loads(CONFIGS[name]), "quantization_config": PUBLISHED_IN[name]}
    theirs = load_text(json.dumps({"architectures": ["ForCausalLM"], **config}), "config.json").model
    ours = load(name).model
    assert ours.quantization is None
    assert theirs.is_as_published
    counted, expected = (archcli.count_params(model).totals for model in (ours, theirs))
    assert counted["published_bytes"] == expected["bytes"] == expected["published_bytes"]
    assert counted["plain_bytes"] == counted["bytes"] == expected["plain_bytes"]


@every_row("name", STATED)
def test_what_is_skipped_differs(name):
    ours, theirs = stated(load(name).model, ABOUT), stated(imported(name), ABOUT)
    assert {
        path.rpartition(".")[2] for path in ours.keys() | theirs.keys() if ours.get(path) != theirs.get(path)
    } == STATED[name]


def test_the_skipped_defaults_are_those():
    assert 256**-0.5 == 0.0625
    assert (2048 // 8, 4096 // 32) == (256, 128)
