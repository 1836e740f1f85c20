"""A file that llama.cpp's converter writes is the model that its config.json is: `convert.py` made them."""

import json
from pathlib import Path

import pytest

from archcli import count_kv_cache, count_params, load
from archcli.load.spec.written import to_mapping
from gguf_files.file import gguf

CONVERTED = json.loads((Path(__file__).parent / "converted.json").read_text())
FILLED_UP = {"gemma3n-filled-up": {"vocab_size_per_layer_input": 61}}
"""What the converter makes otherwise: a table of fewer rows than there are tokens is filled up."""
SAID = ("name", "source", "towers", "uncounted")
"""Where a model is from and what is beside it, which differ."""

UNSTATED = 2**20
"""The context that the converter writes for models without positions, whatever their config says."""


def shape(model):
    return {key: value for key, value in to_mapping(model).items() if key not in SAID}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", CONVERTED)
def test_a_converted_file_is_the_model_of_its_config(name, tmp_path):
    entry, file = CONVERTED[name], tmp_path / "model.gguf"
    file.write_bytes(gguf(entry["metadata"], entry["tensors"]))
    stored, stated = load(file), load({**entry["config"], **FILLED_UP.get(name, {})})
    if entry["metadata"][f"{entry['metadata']['general.architecture']}.context_length"] == UNSTATED:
        stated = stated.replace(max_seq_len=None)
    assert shape(stored) == shape(stated)
    assert count_params(stored).totals["params"] == count_params(stated).totals["params"]
    assert count_kv_cache(stored, context=9).totals == count_kv_cache(stated, context=9).totals
