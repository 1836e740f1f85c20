"""GGUF files of hybrid models: what tells the kinds of layers, and what is refused."""

import json
from math import prod
from pathlib import Path

import pytest

from archcli import count_params
from archcli.errors import ArchError
from archcli.load.source import load, load_text
from gguf_files.file import gguf
from table import every_row, sampled_rows

CONVERTED = json.loads((Path(__file__).parent / "converted.json").read_text())

NEW = ("mamba2", "granite4", "granitehybrid", "nemotron-h", "bamba")


@pytest.fixture
def altered(tmp_path):
    def write(name, tensors=None, **metadata):
        entry, file = CONVERTED[name], tmp_path / "model.gguf"
        architecture = entry["metadata"]["general.architecture"]
        changed = {f"{architecture}.{key.replace('__', '.')}": value for key, value in metadata.items()}
        kept = {key: value for key, value in {**entry["metadata"], **changed}.items() if value is not None}
        file.write_bytes(gguf(kept, entry["tensors"] if tensors is None else tensors))
        return str(file)

    return write


def test_layers_that_predict_further_tokens_are_not_counted(altered):
    entry = CONVERTED["nemotron-h-predicting"]
    beyond = {"blk.4.nextn.eh_proj.weight": [32, 64], "blk.4.attn_norm.weight": [32]}
    loaded = load(altered("nemotron-h-predicting", {**entry["tensors"], **beyond}))
    assert f"layers that predict further tokens are not among the totals: {32 * 64 + 32:,} parameters" in (
        loaded.notes
    )
    assert count_params(loaded.model).totals["params"] == _listed(entry["tensors"])


def _listed(tensors):
    """The entries of all tensors, buffers left out."""
    return sum(prod(shape) for name, shape in tensors.items() if "exp_probs_b" not in name)


@sampled_rows("name", [name for name in CONVERTED if name.startswith(NEW)], 4)
def test_all_tensors_are_counted(name, altered):
    counted = count_params(load(altered(name)).model).totals["params"]
    assert counted == _listed(CONVERTED[name]["tensors"])


NOT_STATED = {
    "mamba2": ("chunks",),
    "granitehybrid": ("chunks", "context"),
    "nemotron-h": ("chunks", "context"),
    "falcon-h1": ("chunks",),
    "bamba": ("chunks",),
}


@pytest.mark.parametrize(("name", "words"), NOT_STATED.items())
def test_notes_say_what_is_not_stated(name, words, altered):
    notes = [note for note in load(altered(name)).notes if "not stated" in note]
    assert [word for word in ("chunks", "context") if any(word in note for note in notes)] == list(words)


@pytest.mark.parametrize("name", ["granitehybrid", "nemotron-h"])
def test_a_context_that_no_file_states_is_none(name, altered):
    """The converter writes 2**20 for every one of them; another number is somebody's word."""
    assert load(altered(name)).model.max_seq_len is None
    assert load(altered(name, context_length=512)).model.max_seq_len == 512


@pytest.mark.parametrize("name", ["jamba", "granitehybrid", "nemotron-h"])
def test_without_tensors_biases_are_left_to_the_class(name, altered):
    """Convolutions of the class have a bias; a file that lists no tensors says nothing of it."""
    config = load(altered(name, {}, vocab_size=64)).config
    assert not [key for key in config if key.endswith("bias")]


@pytest.mark.parametrize(("says", "word"), [(False, "nope"), (True, "rope"), (None, "rope")])
def test_a_granite_has_rope_unless_its_file_denies_it(says, word, altered):
    """As in llama.cpp; its converter writes False for every Granite with Mamba-2 layers."""
    stored = load(altered("granitehybrid", rope__scaling__finetuned=says)).model
    config = {**CONVERTED["granitehybrid"]["config"], "position_embedding_type": word}
    stated = load_text(json.dumps(config), "config.json").model
    assert stored == stated.replace(name=stored.name, max_seq_len=None)


REFUSED = [
    (
        "granitehybrid",
        {"attention__head_count_kv": [0, 2, 0, 0, 4]},
        "head_count_kv differs from layer to layer",
    ),
    ("granitehybrid", {"attention__head_count_kv": [0, 2]}, "head_count_kv is not one value for each layer"),
    ("granitehybrid", {"attention__head_count_kv": 2}, "head_count_kv is not one value for each layer"),
    ("granitehybrid", {"attention__head_count_kv": [0.5] * 5}, "must be whole numbers, not 0.5"),
    ("granitehybrid", {"attention__head_count_kv": [0] * 5}, "its tensors are not those of the architecture"),
    ("bamba", {"rope__scaling__finetuned": None}, "rope.scaling.finetuned' is missing"),
    ("granitehybrid", {"expert_used_count": None}, "expert_used_count' is missing"),
    ("granitehybrid", {"ssm__group_count": None}, "ssm.group_count' is missing"),
    ("granitehybrid", {"rope__scaling__finetuned": 7}, "rope.scaling.finetuned' must be a truth value"),
    ("nemotron-h-latent", {"expert_group_used_count": None}, "expert_group_used_count' is missing"),
    ("mamba2", {"ssm__inner_size": 63}, "ssm.inner_size 63 is no multiple of 8 heads"),
    ("mamba2", {"ssm__state_size": None}, "ssm.state_size' is missing"),
    (
        "nemotron-h",
        {"feed_forward_length": [0, 52, 0, 0, 40, 0, 52]},
        "feed_forward_length differs from layer",
    ),
    ("nemotron-h", {"feed_forward_length": [0, 52, 0, 52, 52, 0, 52]}, "layer 3 has both kv heads and"),
    (
        "nemotron-h-moe",
        {"expert_feed_forward_length": [0, 20, 0, 0, 24, 0, 0, 20]},
        "differs from layer to layer",
    ),
    ("nemotron-h-moe", {"expert_used_count": [0, 2, 0, 0, 1, 0, 0, 2]}, "differs from layer to layer"),
    ("nemotron-h-moe", {"expert_weights_norm": None}, "expert_weights_norm' is missing"),
    ("nemotron-h-latent", {"moe_latent_size": None}, "its tensors are not those of the architecture"),
]


@every_row(("name", "metadata", "message"), REFUSED)
def test_what_is_refused(name, metadata, message, altered):
    with pytest.raises(ArchError, match=message):
        load(altered(name, **metadata))
