"""Qwen3.8-Flash-Next: its parameters, FLOPs and cache by its class, and what is refused."""

import json

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import DynamicCache, Qwen4ExpForCausalLM, Qwen4ExpTextConfig

import archcli
from archcli.errors import ArchError
from archcli.load.source import load_text
from importing import imported_file
from table import every_row

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

LINEAR, SPARSE = "linear_attention", "indexed_attention"
SMALL = {
    "architectures": ["Qwen4ExpForCausalLM"],
    "model_type": "qwen4_exp_text",
    "vocab_size": 31,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "layer_types": [LINEAR, SPARSE, "full_attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rope_parameters": {"rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 0.5},
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 6,
    "linear_value_head_dim": 5,
    "moe_intermediate_size": 10,
    "shared_expert_intermediate_size": 7,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "hc_count": 3,
    "hc_lowrank": 5,
    "ple_layer_ids": [1],
    "ple_embed_dim": 8,
    "ple_conv_kernel_size": 3,
    "ngram_size": 3,
    "heads_per_ngram": 2,
    "ngram_vocab_size_base": 90,
    "make_ngram_vocab_size_divisible_by": 16,
    "eos_token_id": 2,
    "indexer_n_heads": 3,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 6,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}


def theirs(**more):
    """The class on the CPU, whose index reads values; its experts run as one product each."""
    torch.manual_seed(0)
    config = Qwen4ExpTextConfig(**{**SMALL, **more})
    config._attn_implementation, config._experts_implementation = "eager", "eager"
    return Qwen4ExpForCausalLM(config).eval()


def ours(**more):
    return load_text(json.dumps({**SMALL, **more}), "config.json").model


def test_the_tables_have_the_primes_and_the_numbers_of_the_class():
    ngrams = imported_file(SMALL).groups[0].layer.ngrams
    embedding = theirs().model.layers[0].ple.ple_embedding
    # the four primes from 90 on
    assert ngrams.tables == tuple(embedding.head_vocab_sizes) == (97, 101, 103, 107)
    assert ngrams.multipliers == tuple(embedding.layer_multipliers.tolist())
    # 97 + 101 + 103 + 107 = 408, in rows of 16
    assert embedding.ngram_embedding.weight.shape == (26 * 16, 8 // 4)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"seed": 7, "vocab_size": 40},
        {"ple_layer_ids": [], "eos_token_id": None},
        {"ngram_size": 2, "heads_per_ngram": 4, "ple_embed_dim": None},
        {"attention_bias": True, "tie_word_embeddings": True, "output_gate_type": "sigmoid"},
    ],
)
def test_each_parameter_is_the_class_s(more):
    counted = archcli.count_params(ours(**more)).totals["params"]
    assert counted == sum(p.numel() for p in theirs(**more).parameters())


@pytest.mark.parametrize("tokens", [3, 4, 13, 30])
def test_an_index_scores_closed_pools_alone_as_its_class_does(tokens):
    model, ids = theirs(), torch.randint(3, 31, (1, tokens))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(ids, use_cache=False)
    counts = counter.get_flop_counts()
    of_index = [sum(counts[name].values()) for name in counts if name.endswith("self_attn.indexer")]
    counted = archcli.count_flops(ours(), seq_len=tokens).totals["by_component"]
    assert counted["indexer"] == sum(of_index)
    # two layers: Wq and Wk of 3 + 1 heads of 6, and 3 heads for each pool that a token sees closed
    closed = sum((t + 1) // 4 for t in range(tokens))
    assert counted["indexer"] == 2 * (2 * tokens * 16 * 4 * 6 + 2 * 3 * 6 * closed)


def test_the_streams_and_n_grams_have_the_flops_of_their_class():
    model, ids, tokens = theirs(), torch.randint(3, 31, (1, 9)), 9
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(ids, use_cache=False)
    counts = {name: sum(found.values()) for name, found in counter.get_flop_counts().items()}
    streams = sum(counts[name] for name in counts if name.endswith(("_hyper_connection", "connection_mixer")))
    [ngrams] = [counts[name] for name in counts if name.endswith(".ple")]
    counted = archcli.count_flops(ours(), seq_len=tokens).totals["by_component"]
    # down and up of 2 gatherings in 3 layers and one behind them, and 3 gates of each output
    assert counted["hyper_connections"] == streams == 2 * tokens * 48 * (7 * 2 * 5 + 6 * 3)
    # 9 + 6 places that the class convolves, of which 6 are the padding; archcli counts 9
    convolved = 2 * 48 * 3 * tokens
    assert counted["ngrams"] == ngrams - convolved == 2 * tokens * 8 * (48 + 16)


def test_a_layer_with_n_grams_keeps_what_its_class_keeps():
    model, cache, tokens = theirs(), DynamicCache(config=Qwen4ExpTextConfig(**SMALL)), 30
    with torch.no_grad():
        model(torch.randint(3, 31, (1, tokens)), cache=cache)
    held = cache.layers[0]
    report = archcli.count_kv_cache(ours(), context=tokens, dtype="fp32")
    contents = report.totals["by_content"]
    assert contents["convolution"] == sum(held.conv_states[i].numel() for i in (0, 1))
    # 4 inputs of 2 * 12 + 10 channels, and 3 * 2 of 48 channels
    assert contents["convolution"] == 4 * (2 * 12 + 10) + (3 - 1) * 3 * 48
    assert contents["token ids"] == held.conv_states[2].numel() == 2
    assert contents["recurrent state"] == held.recurrent_states[0].numel()
    attending = cache.layers[1:]
    assert contents["keys and values"] == sum(it.keys.numel() + it.values.numel() for it in attending)
    # the class keeps the index keys of all tokens; here 7 pools have one each, and 2 tokens are left
    assert sum(it.indexer_keys.numel() for it in attending) == 2 * tokens * 6
    assert (contents["index keys"], contents["open block"]) == (2 * 7 * 6, 2 * 2 * 6)
    # ids are numbers of 8 bytes
    others = sum(contents.values()) - 2
    assert report.totals["bytes"] == 4 * others + 8 * 2


REFUSED = {
    "no index": ({"indexer_budget": None}, "indexer_budget is missing: layers of attention have an index"),
    "two key heads": ({"indexer_kv_heads": 2}, "indexer_kv_heads 2 is not supported"),
    "half a pool": ({"indexer_budget": 10}, "indexer_budget 10 is no multiple of indexer_compress_ratio 4"),
    "one stream": ({"hc_count": 1}, "hc_count 1 is not supported"),
    "a window": ({"layer_types": ["sliding_attention"] * 3}, "'sliding_attention' is not supported"),
    "a gate": ({"output_gate_type": "gelu"}, "output_gate_type 'gelu' is not supported"),
    "n-grams at attention": ({"ple_layer_ids": [2]}, "ple_layer_ids 2 is a layer of attention"),
    "n-grams beyond": ({"ple_layer_ids": [4]}, "must be a list of numbers from 1 to 3"),
    "no end": ({"eos_token_id": None}, "eos_token_id must be a token's number"),
    "uneven tables": ({"ple_embed_dim": 10}, "ple_embed_dim 10 is not divided by 4 tables"),
    "too many tables": ({"heads_per_ngram": 10**6}, "make 2000000 tables in a layer"),
    "huge tables": ({"ngram_vocab_size_base": 2**63}, "ngram_vocab_size_base is beyond reason"),
    "no n-grams": ({"ngram_size": 1}, "make 0 tables"),
    "wide rotation": ({"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}}, "index.head_dim"),
}


@every_row("name", REFUSED)
def test_what_the_class_does_not_do_is_refused(name):
    more, message = REFUSED[name]
    with pytest.raises(ArchError, match=message):
        imported_file({**SMALL, **more})


FLASH = {
    **{key: value for key, value in SMALL.items() if key not in ("layer_types", "architectures")},
    "vocab_size": 248320,
    "hidden_size": 2560,
    "num_hidden_layers": 48,
    "num_attention_heads": 24,
    "head_dim": 256,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25},
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "moe_intermediate_size": 640,
    "shared_expert_intermediate_size": 640,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "output_gate_type": "sigmoid",
    "hc_count": 4,
    "hc_lowrank": 320,
    "ple_layer_ids": [2],
    "ple_embed_dim": 2560,
    "ple_conv_kernel_size": 4,
    "heads_per_ngram": 8,
    "ngram_vocab_size_base": 20_000_000,
    "make_ngram_vocab_size_divisible_by": 128,
    "eos_token_id": 248044,
    "indexer_n_heads": 4,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
}
"""FlashML-org/FreeToken, tests/models/qwen4_exp/test_config.py: shaped like Qwen/Qwen3.8-Flash-Next."""


def test_the_released_sizes_are_those_of_the_class():
    model = load_text(json.dumps({"architectures": ["Qwen4ExpForCausalLM"], **FLASH}), "config.json").model
    totals = archcli.count_params(model).totals
    # transformers 5.24 on the meta device: 177,392,830,576 with a tower of 448,931,056
    assert totals["params"] == 177_392_830_576 - 448_931_056
    # 16 primes from 20,000,000 on, in rows of 128, of 2560 / 16 columns
    assert totals["by_group"]["ngram_embedding"] == 2_500_012 * 128 * 160


@pytest.mark.parametrize("phase", ["train", "forward", "prefill", "decode"])
def test_the_memory_of_every_phase_is_read(phase):
    weights = archcli.count_params(ours()).totals["bytes"]
    assert archcli.memory(ours(), phase, seq_len=16).totals["peak_bytes"] > weights


def streams_with_n_grams(**more):
    """A layer of the kind, with an index of tokens; D 8."""
    index = {"kind": "tokens", "top_k": 2, "n_heads": 1, "head_dim": 8}
    attention = {
        "kind": "gqa",
        "n_heads": 2,
        "n_kv_heads": 1,
        "head_dim": 4,
        "position": "rope",
        "index": index,
    }
    return {
        "kind": "low_rank_hyper",
        "n_streams": 2,
        "rank": 1,
        "attention": {**attention, **more},
        "ffn": {"kind": "mlp", "d_ff": 8, "activation": "gelu"},
        "ngrams": {"width": 2, "tables": [7, 11], "multipliers": [3, 5, 7], "boundary": 0},
    }


def test_a_layer_with_n_grams_lends_the_choice_of_its_index():
    """The second layer reads what the first has chosen: keys of one index, of 8 tokens and 8 elements."""
    model = {
        "vocab_size": 16,
        "d_model": 8,
        "norm": {"kind": "rmsnorm", "eps": 1e-6},
        "embedding": {"tied": True},
        "groups": [
            {"n_layers": 1, "layer": streams_with_n_grams()},
            {"n_layers": 1, "layer": streams_with_n_grams(index_from=0)},
        ],
    }
    kept = archcli.kvcache(model, context=8).totals["by_content"]
    assert kept["index keys"] == 8 * 8
    # 4 taps read every third token, of 2 streams of 8 channels in 2 layers
    assert kept["convolution"] == 2 * (3 * 3) * 2 * 8
    forward, train = (
        archcli.count_flops(model, phase=phase, seq_len=8).totals["matmul_flops"]
        for phase in ("forward", "train")
    )
    assert 2 * forward < train < 3 * forward
