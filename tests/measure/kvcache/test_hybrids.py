"""What grows and what does not: caches of hybrids, worked out by hand.

D 8; linear attention of 2 heads of width 4 keeps S and z, 2 x (4 x 4 + 4) elements a layer; grouped attention
2 kv heads of width 2, 2 x (2 + 2) elements a token and layer.
"""

import pytest

from archcli.graph import State, StateContent, StateKind
from archcli.load.source import load
from archcli.measure.kvcache.cache_size import CacheDtypes
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.kvcache.variants import attention_only
from archcli.modules import Encoder, Group, LinearAttention, MultiHeadAttention, PreNorm, RMSNorm
from archcli.modules.attention.mixer import ParallelMixer
from archcli.modules.models.layers import LayerIndex
from small import NORM, attention, decoder, layer

STATE = 2 * (4 * 4 + 4)
TOKEN = 2 * (2 + 2)
RECURRENT = PreNorm(norm=NORM, mixer=LinearAttention(n_heads=2))
ALONE = PreNorm(norm=NORM, ffn=layer().ffn)
HYBRID = decoder(Group(n_layers=9, pattern=(RECURRENT, RECURRENT, layer(attention()))))
STATES = decoder(Group(n_layers=4, pattern=(RECURRENT, ALONE)))


def test_what_grows_and_what_does_not():
    found = count_kv_cache(HYBRID, 10, batch_size=3).totals
    assert found["kv_elements"] == 3 * 3 * 10 * TOKEN
    assert found["state_elements"] == 3 * 6 * STATE
    assert found["elements"] == found["kv_elements"] + found["state_elements"]
    assert found["by_content"] == {"recurrent state": 3 * 6 * STATE, "keys and values": 3 * 3 * 10 * TOKEN}
    assert (found["kv_bytes"], found["state_bytes"]) == (
        2 * found["kv_elements"],
        2 * found["state_elements"],
    )
    assert found["bytes_per_token"] == 2 * 3 * TOKEN


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_context_at_which_keys_and_values_overtake_the_states(batch_size):
    at = count_kv_cache(HYBRID, 10, batch_size).totals["overtakes_at"]
    assert 3 * TOKEN * (at - 1) <= 6 * STATE < 3 * TOKEN * at
    wide = count_kv_cache(HYBRID, 10, batch_size, state_dtype="fp32").totals["overtakes_at"]
    assert 2 * 3 * TOKEN * (wide - 1) <= 4 * 6 * STATE < 2 * 3 * TOKEN * wide


def test_a_window_may_never_overtake_them():
    few, many = (
        decoder(Group(n_layers=2, pattern=(RECURRENT, layer(attention(window=window))))) for window in (5, 6)
    )
    assert 5 * TOKEN <= STATE < 6 * TOKEN
    assert count_kv_cache(few, 100).totals["overtakes_at"] is None
    assert count_kv_cache(many, 100).totals["overtakes_at"] == 6


def test_a_model_without_attention_or_without_states_overtakes_nothing():
    assert count_kv_cache(STATES, 10).totals["overtakes_at"] is None
    assert count_kv_cache(decoder(), 10).totals["overtakes_at"] is None
    assert count_kv_cache(decoder(), 10).totals["state_bytes"] == 0


def test_a_record_of_each_sort_of_layer_says_what_it_caches():
    rows = count_kv_cache(HYBRID, 10, batch_size=3).rows
    keys = ("attention", "layers", "cached", "elements_per_token", "constant_elements", "elements")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("linear", 6, "recurrent state", 0, STATE, 3 * 6 * STATE),
        ("gqa", 3, "keys and values", TOKEN, 0, 3 * 3 * 10 * TOKEN),
    ]


def test_layers_of_a_network_alone_cache_nothing():
    report = count_kv_cache(STATES, 10)
    assert [row["layers"] for row in report.rows] == [2]
    assert report.totals["elements"] == report.totals["state_elements"] == 2 * STATE


def test_states_have_a_dtype_of_their_own():
    found = count_kv_cache(HYBRID, 10, dtype="bf16", state_dtype="fp32")
    assert found.totals["bytes"] == 2 * 3 * 10 * TOKEN + 4 * 6 * STATE
    assert found.totals["bytes_per_token"] == 2 * 3 * TOKEN
    assert [row["bytes"] for row in found.rows] == [4 * 6 * STATE, 2 * 3 * 10 * TOKEN]
    assert not any("--state-dtype" in note for note in found.notes)
    assert any("--state-dtype fp32" in note for note in count_kv_cache(HYBRID, 10).notes)
    assert not any("--state-dtype" in note for note in count_kv_cache(decoder(), 10).notes)


def test_a_format_of_blocks_is_of_keys_and_values_alone():
    found = count_kv_cache(HYBRID, 32, dtype="q8_0")
    assert found.totals["bytes"] == 3 * 32 * TOKEN * 34 // 32 + 4 * 6 * STATE
    assert any("q8_0 is for keys and values" in note for note in found.notes)
    stated = count_kv_cache(HYBRID, 32, dtype="q8_0", state_dtype="bf16")
    assert stated.totals["state_bytes"] == 2 * 6 * STATE


def test_inputs_of_a_convolution_are_in_the_dtype_of_the_model():
    dtypes = CacheDtypes("bf16", "fp32")
    contents = {StateContent.CONVOLUTION: 3, StateContent.RECURRENT: 5, StateContent.LATENT: 7}
    assert dtypes.bytes_of(contents) == 2 * 3 + 4 * 5 + 2 * 7
    assert CacheDtypes("q8_0").of(StateContent.CONVOLUTION) == "fp32"


@pytest.mark.parametrize("spare", [0, 1, 2 * 3 * TOKEN - 1])
def test_as_many_tokens_fit_beside_the_states_as_fit(spare):
    memory = 2 * 6 * STATE + 1000 * 2 * 3 * TOKEN + spare
    fit = count_kv_cache(HYBRID, 100, memory_bytes=memory).totals["fits"]["cache_alone"]
    assert fit == {"tokens": 1000, "sequences": memory // (2 * 6 * STATE + 100 * 2 * 3 * TOKEN)}


def test_of_states_alone_tokens_have_no_bound_but_sequences_have():
    report = count_kv_cache(STATES, 100, memory_bytes=7 * 2 * 2 * STATE)
    assert report.totals["fits"]["cache_alone"] == {"tokens": None, "sequences": 7}
    assert "the state is constant, whatever the length." in report.notes
    too_small = count_kv_cache(STATES, 100, memory_bytes=2 * 2 * STATE - 1).totals["fits"]["cache_alone"]
    assert too_small == {"tokens": 0, "sequences": 0}


def test_the_same_model_with_attention_only():
    kinds = count_kv_cache(HYBRID, 10).totals["as_kind"]
    assert kinds["attention only"]["elements"] == 9 * 10 * TOKEN
    assert kinds["mqa"]["elements"] == 6 * STATE + 3 * 10 * (2 + 2)


def test_it_takes_the_attention_that_most_layers_have():
    windowed = layer(attention(window=4))
    model = decoder(Group(n_layers=4, pattern=(windowed, layer(), RECURRENT, layer())))
    assert count_kv_cache(model, 10).totals["as_kind"]["attention only"]["elements"] == (4 + 3 * 10) * TOKEN


@pytest.mark.parametrize("model", [decoder(), STATES, HYBRID], ids=["attention", "states", "hybrid"])
def test_only_a_hybrid_has_one(model):
    assert (attention_only(model) is None) is (model is not HYBRID)
    assert ("attention only" in count_kv_cache(model, 10).totals["as_kind"]) is (model is HYBRID)


def test_a_layer_of_branches_keeps_its_own_attention():
    branches = (MultiHeadAttention(n_heads=4), LinearAttention(n_heads=2))
    both = PreNorm(norm=NORM, mixer=ParallelMixer(branches=branches))
    model = decoder(Group(n_layers=3, layer=both))
    found = count_kv_cache(model, 10)
    assert found.totals["elements"] == 3 * (10 * 2 * 8 + STATE)
    assert found.rows[0]["cached"] == "keys and values + recurrent state"
    assert found.totals["as_kind"]["attention only"]["elements"] == 3 * 10 * 2 * 8
    assert {layer.block.facts().kind for layer in LayerIndex(attention_only(model))} == {"mha"}


def test_an_encoder_has_none():
    layers = (Group(n_layers=2, layer=layer(MultiHeadAttention(n_heads=2, causal=False))),)
    model = Encoder(vocab_size=9, d_model=8, norm=RMSNorm(), groups=layers)
    assert attention_only(model) is None


def test_a_state_says_what_it_holds_or_its_kind_does():
    assert State(1, StateKind.FIXED).holds is StateContent.RECURRENT
    assert State(1, StateKind.TOKENS, 1).holds is StateContent.KEYS_VALUES
    assert State(1, StateKind.FIXED, content=StateContent.CONVOLUTION).holds is StateContent.CONVOLUTION


def test_a_latent_is_called_one():
    found = count_kv_cache(load("deepseek-v3").model, 10).totals["by_content"]
    assert found == {"latent": 61 * 10 * (512 + 64)}


def test_an_encoder_decoder_is_no_hybrid():
    """Layers of its encoder see both ways, and cache nothing."""
    kinds = count_kv_cache(load("t5gemma-2b-2b").model, 100).totals["as_kind"]
    assert {*kinds} == {"mha", "gqa", "mqa", "mla"}
