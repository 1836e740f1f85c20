"""Sliding windows of GGUF files, and ChatGLM: what distinguishes models of one architecture's name."""

import pytest

from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from gguf_files.tiny import ARCH, COUNTED, LLAMA, TENSORS

WINDOW = {"attention.sliding_window": 8}


@pytest.mark.parametrize(
    ("metadata", "windows"),
    [
        (WINDOW, [8, 8, 8, None, 8]),
        ({**WINDOW, "attention.sliding_window_pattern": 2}, [8, None, 8, None, 8]),
        (
            {**WINDOW, "attention.sliding_window_pattern": [True, False, False, True, True]},
            [8, None, None, 8, 8],
        ),
        ({"attention.sliding_window": 0}, [None] * 5),
        ({}, [None] * 5),
    ],
    ids=["window", "period", "layers", "zero", "unstated"],
)
def test_an_olmo_keeps_the_windows_of_its_layers(asked, metadata, windows):
    """Each layer caches keys and values of 2 heads of 4 for min(context, window) tokens."""
    usual = {key.removeprefix("llama."): value for key, value in LLAMA.items() if key != ARCH}
    stated = {f"olmo2.{key}": value for key, value in {**usual, "block_count": 5, **metadata}.items()}
    loaded = asked({ARCH: "olmo2", **stated}, {})
    elements = sum(2 * 2 * 4 * min(40, window or 40) for window in windows)
    assert count_kv_cache(loaded.model, 40).totals["elements"] == elements
    assert not [note for note in loaded.notes if "not understood" in note]


def test_windows_of_other_layers_than_there_are_is_told(answer_of):
    usual = {key.replace("llama", "olmo2"): value for key, value in LLAMA.items()}
    stated = {"olmo2.attention.sliding_window": 8, "olmo2.attention.sliding_window_pattern": [True]}
    assert "sliding_window_pattern is not one value for each layer" in answer_of(
        {**usual, ARCH: "olmo2", **stated}, {}
    )


def test_a_mistral_keeps_its_window_and_is_noted_where_the_file_states_none(asked):
    windowed = asked({**LLAMA, "llama.attention.sliding_window": 8})
    assert count_kv_cache(windowed.model, 40).totals["elements"] == 3 * 2 * 2 * 4 * 8
    unstated = asked({**LLAMA, "general.name": "mistralai_Mistral-7B-v0.1"})
    assert count_kv_cache(unstated.model, 40).totals["elements"] == 3 * 2 * 2 * 4 * 40
    assert any("--set attention.window=4096" in note for note in unstated.notes)


def test_a_chatglm_with_fused_and_biased_queries_keys_and_values_is_glm(asked):
    metadata = {key.replace("llama", "chatglm"): value for key, value in LLAMA.items()}
    tensors = {
        name: shape
        for name, shape in TENSORS.items()
        if not any(part in name for part in ("_q", "_k", "_v", "gate"))
    }
    for i in range(3):
        tensors |= {f"blk.{i}.attn_qkv.weight": (32, 16), f"blk.{i}.attn_qkv.bias": (32,)}
        tensors[f"blk.{i}.ffn_up.weight"] = (48, 16)
    loaded = asked({**metadata, ARCH: "chatglm", "chatglm.rope.dimension_count": 2}, tensors)
    assert count_params(loaded.model).totals["params"] == COUNTED + 3 * 32
    assert loaded.model.groups[0].layer.attention.position.rotary_dim == 2


def test_a_flood_of_unknown_keys_is_noted_in_short(asked):
    notes = asked({**LLAMA, **{f"llama.k{i}": i for i in range(1_000)}}).notes
    assert len([note for note in notes if "was not understood" in note]) == 20
    assert "and 980 more metadata keys were not understood" in notes
