"""Presets of releases since 2025: each is what the released config.json imports as, with the class's total.

`releases.json` has the config.json of each, of which the keys that no count asks are left out, where it was
found, and what transformers 5.24's class of it has in parameters on the meta device.
"""

import json
from functools import cache
from pathlib import Path

import pytest

import archcli
from archcli.load.source import load, load_text
from archcli.modules import settings
from table import every_row, sampled_rows

RECORDS = json.loads((Path(__file__).with_name("releases.json")).read_text())
ABOUT = {"name", "source", "released", "series", "sibling_of", "published"}
OF_LAST_YEARS_SHAPE = {
    "glm-4.7": "glm-4.6",
    "kimi-k2-thinking": "kimi-k2.5",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "qwen2.5-14b-instruct": "qwen2.5-14b",
    "qwen2.5-32b-instruct": "qwen2.5-32b",
    "qwen2.5-72b-instruct": "qwen2.5-72b",
}
"""Presets without a record, and the older preset whose layers they have."""


@cache
def imported(name):
    return load_text(
        json.dumps({"architectures": ["ForCausalLM"], **RECORDS[name]["config"]}), "config.json"
    ).model


def stated(model):
    return {path: value for path, value in settings(model) if path.rpartition(".")[2] not in ABOUT}


@sampled_rows("name", RECORDS, 4)
def test_is_what_its_config_imports_as(name):
    ours, theirs = load(name).model, imported(name)
    # the class of Sarvam 105B has a context that its release has not
    bare = {"quantization": None, "published_in": None, "max_seq_len": theirs.max_seq_len}
    assert ours.max_seq_len in (theirs.max_seq_len, None)
    assert stated(ours.replace(**bare)) == stated(theirs.replace(**bare))
    assert (ours.published_in is None) == ("quantization_config" not in RECORDS[name]["config"])
    counted, expected = (archcli.count_params(model).totals for model in (ours, theirs))
    assert counted.get("published_bytes") == expected.get("published_bytes")


@sampled_rows("name", [name for name, record in RECORDS.items() if "params" in record], 4)
def test_has_the_parameters_of_its_class(name):
    assert archcli.count_params(load(name).model).totals["params"] == RECORDS[name]["params"]


def layers(model):
    parts = {
        path: value for path, value in stated(model).items() if path.startswith(("groups", "layer", "embed"))
    }
    return {path: value for path, value in parts.items() if not path.endswith("theta")}


@every_row(("name", "older"), OF_LAST_YEARS_SHAPE.items())
def test_has_the_layers_of_an_older_one(name, older):
    assert layers(load(name).model) == layers(load(older).model)


CONTEXTS = {
    **dict.fromkeys(("qwen2.5-14b-instruct", "qwen2.5-32b-instruct", "qwen2.5-72b-instruct"), 32_768),
    "deepseek-r1-distill-qwen-7b": 131_072,
    "glm-4.7": 202_752,
    "kimi-k2-thinking": 262_144,
}


@every_row(("name", "tokens"), CONTEXTS.items())
def test_its_context_is_that_of_its_card(name, tokens):
    assert load(name).model.max_seq_len == tokens


@pytest.mark.long
@pytest.mark.torch
@every_row("name", [name for name, record in RECORDS.items() if "params" in record])
def test_the_recorded_parameters_are_the_class_s(name):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = {key: value for key, value in RECORDS[name]["config"].items() if key != "quantization_config"}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    assert sum(weight.numel() for weight in model.parameters()) == RECORDS[name]["params"]
