"""GGUF files of Gemma 3n and Gemma 4: what their headers may hold otherwise, and what is refused."""

import json
from copy import deepcopy
from math import prod
from pathlib import Path

import pytest

from archcli import count_params
from archcli.load.gguf.derived import FILLED_UP, ROTATED_SHARE
from archcli.load.spec.written import to_mapping
from table import every_row, sampled_rows

CONVERTED = json.loads((Path(__file__).parent / "converted.json").read_text())
GEMMAS = [name for name in CONVERTED if name.startswith(("gemma3n", "gemma4"))]


def entry(name):
    """(metadata, tensors, the text before a key) of a converted file."""
    found = deepcopy(CONVERTED[name])
    return found["metadata"], found["tensors"], found["metadata"]["general.architecture"]


def params(loaded):
    return count_params(loaded.model).totals["params"]


@sampled_rows("name", GEMMAS, 4)
def test_every_key_of_a_header_is_understood(name, asked):
    metadata, tensors, arch = entry(name)
    notes = asked(metadata, tensors).notes
    assert not [note for note in notes if "not understood" in note or "not counted" in note]
    assert (ROTATED_SHARE in notes) == (arch == "gemma4")
    rows = tensors.get("per_layer_token_embd.weight", [0])[0]
    assert (FILLED_UP in notes) == (arch == "gemma3n" and rows == 61)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("name", "width", "readers"), [("gemma3n", 8, range(4, 8)), ("gemma4-e", 16, range(5, 6))]
)
def test_keys_of_layers_that_read_those_of_others_are_no_parameters(name, width, readers, asked):
    """Published checkpoints hold them, and files converted from those."""
    metadata, tensors, _ = entry(name)
    stated = asked(metadata, tensors)
    unread = {f"blk.{i}.attn_{part}.weight": [2 * width, 32] for i in readers for part in "kv"}
    unread |= {f"blk.{i}.attn_k_norm.weight": [width] for i in readers}
    loaded = asked(metadata, {**tensors, **unread})
    assert loaded.model == stated.model
    held = sum(map(prod, unread.values()))
    assert (
        f"keys and values of layers that read those of others are not counted: {held:,} parameters"
        in loaded.notes
    )
    compared = f"all {len(tensors) - buffers(tensors)} weights that the file lists were compared"
    assert any(note.startswith(compared) for note in loaded.notes)


def buffers(tensors):
    return sum(name.startswith("rope_freqs") or "layer_output_scale" in name for name in tensors)


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize("name", GEMMAS)
def test_a_file_counts_what_it_lists(name, asked):
    metadata, tensors, _ = entry(name)
    listed = sum(prod(s) for n, s in tensors.items() if n != "rope_freqs.weight" and "output_scale" not in n)
    assert params(asked(metadata, tensors)) == listed


def test_separate_gates_of_experts_and_fused_queries_are_read_as_they_are_stored(asked):
    metadata, tensors, _ = entry("gemma4-experts")
    stated = asked(metadata, tensors)
    for i in range(4):
        experts, rows, width = tensors.pop(f"blk.{i}.ffn_gate_up_exps.weight")
        halves = {f"blk.{i}.ffn_{part}_exps.weight": [experts, rows // 2, width] for part in ("gate", "up")}
        tensors |= halves
    for i in (0, 2):
        parts = [tensors.pop(f"blk.{i}.attn_{part}.weight") for part in "qkv"]
        tensors[f"blk.{i}.attn_qkv.weight"] = [sum(rows for rows, _ in parts), 32]
    assert asked(metadata, tensors).model == stated.model


def test_values_of_one_global_layer_and_keys_in_their_place_in_another_are_refused(answer_of):
    metadata, tensors, _ = entry("gemma4-keys-all")
    answer = answer_of(metadata, {**tensors, "blk.1.attn_v.weight": [32, 32]})
    assert "blk.1.attn_v.weight [32, 32] is not among the weights of the architecture" in answer


def test_a_header_without_tensors_is_read_by_its_metadata(asked):
    """Whether values are keys is then not known; nor is the rank of residuals."""
    metadata = {**entry("gemma4-experts")[0], "gemma4.vocab_size": 61}
    block = to_mapping(asked(metadata, {}).model)["groups"][0]["pattern"][0]
    assert block["beside"]["n_experts"] == 6
    metadata, tensors, _ = entry("gemma3n")
    metadata["gemma3n.vocab_size"] = 61
    known, unknown = to_mapping(asked(metadata, tensors).model), to_mapping(asked(metadata, {}).model)
    assert json.dumps(known).count('"laurel_rank": 5') == json.dumps(unknown).count('"laurel_rank": 64') > 0


def test_kv_heads_may_differ_from_layer_to_layer(asked):
    metadata, tensors, _ = entry("gemma4")
    metadata["gemma4.attention.head_count_kv"] = [2, 4, 1, 1]
    for i, rows in enumerate((2 * 8, 4 * 16, 8, 16)):
        tensors |= {f"blk.{i}.attn_{part}.weight": [rows, 32] for part in "kv"}
    listed = sum(prod(s) for n, s in tensors.items() if n != "rope_freqs.weight" and "output_scale" not in n)
    assert params(asked(metadata, tensors)) == listed


# (file, changed metadata, what the answer says); None takes a key out
REFUSED = [
    ("gemma3n", {"altup.num_inputs": 3}, "altup.num_inputs is not 4"),
    ("gemma3n", {"altup.num_inputs": None}, "metadata key 'gemma3n.altup.num_inputs' is missing"),
    ("gemma3n", {"attention.shared_kv_layers": None}, "'gemma3n.attention.shared_kv_layers' is missing"),
    ("gemma3n", {"attention.sliding_window": None}, "'gemma3n.attention.sliding_window' is missing"),
    ("gemma3n", {"feed_forward_length": None}, "'gemma3n.feed_forward_length' is missing"),
    ("gemma3n", {"feed_forward_length": [40] * 7}, "feed_forward_length is not one number for each layer"),
    ("gemma3n", {"activation_sparsity_scale": [1] * 8}, "is not a list of quantiles"),
    ("gemma3n", {"activation_sparsity_scale": [float("nan")] * 8}, "is not a list of quantiles"),
    ("gemma3n", {"activation_sparsity_scale": [0.0]}, "is not one number for each layer"),
    ("gemma4", {"attention.sliding_window": None}, "'gemma4.attention.sliding_window' is missing"),
    ("gemma4", {"attention.sliding_window_pattern": None}, "does not say which layers have the window"),
    (
        "gemma4",
        {"attention.sliding_window_pattern": [True] * 4},
        "does not say which layers have the window; a truth value for each layer, of which the last has none",
    ),
    ("gemma4", {"attention.value_length_swa": 4}, "attention.value_length_swa 4 with heads of 8"),
    ("gemma4", {"rope.dimension_count_swa": 4}, "rope.dimension_count_swa 4 with heads of 8"),
    ("gemma4", {"rope.dimension_count": 4}, "rope.dimension_count 4 with heads of 16"),
    ("gemma4", {"attention.head_count_kv": [2, 2]}, "head_count_kv is not one number for each layer"),
    ("gemma4", {"attention.head_count_kv": [True] * 4}, "head_count_kv is not one number for each layer"),
    ("gemma4", {"embedding_length_per_layer_input": None}, "length_per_layer_input' is missing"),
    ("gemma4-e", {"feed_forward_length": [52] * 5 + [104]}, "neither one width nor twice as much"),
    ("gemma4-e", {"feed_forward_length": [52] * 4 + [96] * 2}, "neither one width nor twice as much"),
    ("gemma4-e", {"attention.shared_kv_layers": 5}, "neither one width nor twice as much"),
]


@every_row(("name", "changed", "said"), REFUSED)
def test_what_a_header_must_state_is_refused_by_name(name, changed, said, answer_of):
    metadata, tensors, arch = entry(name)
    metadata |= {f"{arch}.{key}": value for key, value in changed.items()}
    assert said in answer_of({key: value for key, value in metadata.items() if value is not None}, tensors)
