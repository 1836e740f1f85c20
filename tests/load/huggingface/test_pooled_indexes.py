"""GLM-5.3: which layers choose pools of keys, how many keys they read and cache, and what is refused."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Glm5NextTextConfig
from transformers.models.glm5_next.modeling_glm5_next import Glm5NextTextAttention

import archcli
from archcli.errors import ArchError
from importing import imported_file
from table import every_row

LINEAR, SPARSE = "linear_attention", "deepseek_sparse_attention"
SMALL = {
    "architectures": ["Glm5NextForConditionalGeneration"],
    "model_type": "glm5_next_text",
    "vocab_size": 31,
    "hidden_size": 16,
    "intermediate_size": 20,
    "moe_intermediate_size": 10,
    "num_hidden_layers": 3,
    "layer_types": [LINEAR, SPARSE, SPARSE],
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": 12,
    "kv_lora_rank": 9,
    "qk_nope_head_dim": 8,
    "v_head_dim": 7,
    "index_n_heads": 3,
    "index_head_dim": 6,
    "index_kpool": 4,
    "index_topk": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "linear_attn_config": {"num_heads": 2, "head_dim": 5, "short_conv_kernel_size": 3},
}


def layers(**more):
    """The layers, one by one."""
    groups = imported_file({**SMALL, **more}).groups
    return [group.blocks[i % len(group.blocks)] for group in groups for i in range(group.n_layers)]


def test_the_published_keys_of_delta_attention_overrule_those_of_the_class():
    mixer = layers()[0].mixer
    assert (mixer.n_heads, mixer.head_dim, mixer.conv_kernel, mixer.decay_bound) == (2, 5, 3, -5.0)


@every_row(
    ("said", "bound"),
    [
        ({"gate_lower_bound": -2.0}, -2.0),
        # the class takes -5 where the gate is safe, which it is by default
        ({"gate_lower_bound": None}, -5.0),
        ({"gate_lower_bound": None, "safe_gate": False}, None),
    ],
)
def test_the_bound_of_decays_is_the_class_s(said, bound):
    theirs = Glm5NextTextConfig(linear_attn_config=said)
    assert layers(linear_attn_config=said)[0].mixer.decay_bound == theirs.linear_lower_bound == bound


def test_index_topk_counts_tokens_and_a_layer_pools():
    index = layers()[1].attention.index
    assert (index.top_k, index.pool, index.n_heads, index.head_dim) == (8 // 4, 4, 3, 6)


def test_without_lists_every_fourth_layer_attends_and_the_first_three_are_dense():
    theirs = Glm5NextTextConfig(num_hidden_layers=9)
    found = layers(num_hidden_layers=9, layer_types=None)
    assert [layer.attention is not None for layer in found] == [i % 4 == 3 for i in range(9)]
    assert [layer.ffn.kind == "moe" for layer in found] == [k == "sparse" for k in theirs.mlp_layer_types]


@every_row(
    ("said", "sources"),
    [
        ({}, [None, None]),
        ({"indexer_types": ["full", "full", "shared"]}, [None, 1]),
        ({"index_topk_pattern": "FFS"}, [None, 1]),
        # layer 0 counts for nothing, as it has no index
        ({"indexer_types": ["shared", "full", "full"]}, [None, None]),
    ],
)
def test_a_layer_may_read_the_choice_of_the_one_before_it(said, sources):
    assert [layer.attention.index_from for layer in layers(**said)[1:]] == sources


REFUSED = {
    "shared after a layer without one": ({"indexer_types": ["full", "shared", "full"]}, "layer 1 shares"),
    "shared twice": (
        {
            "num_hidden_layers": 4,
            "layer_types": [LINEAR, *[SPARSE] * 3],
            "indexer_types": ["full", "full", "shared", "shared"],
        },
        "layer 3 shares the index of the layer before it, which has none",
    ),
    "rotary dims": ({"qk_rope_head_dim": 8}, "qk_rope_head_dim 8 is not supported"),
    "no open pool": ({"index_kpool_always_select_tail": False}, "always_select_tail False is not supported"),
    "half a pool": ({"index_topk": 10}, "index_topk 10 is no multiple of index_kpool 4"),
    "queries of full rank": ({"q_lora_rank": None}, "q_lora_rank null is not supported"),
    "means": ({"index_kpool_compress": False}, "index_kpool_compress False is not supported"),
    "a window": ({"layer_types": ["sliding_attention"] * 3}, "'sliding_attention' is not supported"),
    "a decay that grows": ({"linear_attn_config": {"gate_lower_bound": 1.0}}, "must be below 0"),
    "one stream": ({"hc_mult": 1}, "hc_mult 1 is not supported"),
}


@every_row("name", REFUSED)
def test_what_the_class_does_not_do_is_refused(name):
    said, message = REFUSED[name]
    with pytest.raises(ArchError, match=message):
        imported_file({**SMALL, **said})


def their_attention(tokens):
    """A layer's attention of the class, its input, and the FLOPs of its pass and of its index alone."""
    torch.manual_seed(0)
    config = Glm5NextTextConfig(**{key: value for key, value in SMALL.items() if key != "model_type"})
    config._attn_implementation = "eager"
    attention = Glm5NextTextAttention(config, 1)
    for weight in attention.parameters():
        torch.nn.init.normal_(weight)
    x, everywhere = torch.randn(1, tokens, 16), torch.ones(1, tokens, dtype=torch.bool)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        attention(x, everywhere)
    counts = counter.get_flop_counts()
    of_index = next(count for name, count in counts.items() if name.endswith("indexer"))
    return attention, x, counter.get_total_flops(), sum(of_index.values())


def seen_by_the_class(tokens):
    """(query, key) pairs of one head, by the mask that the class makes of its index's choice."""
    attention, x, *_ = their_attention(tokens)
    everywhere = torch.ones(1, tokens, dtype=torch.bool)
    with torch.no_grad():
        latent = attention.q_a_layernorm(attention.q_a_proj(x))
        chosen = attention.indexer(x, latent, everywhere, None)
        mask = attention.build_attention_mask_from_topk(chosen, x, tokens)
    return int((mask == 0).sum())


@pytest.mark.parametrize("tokens", [4, 7, 8, 12, 15, 30])
def test_as_many_pairs_are_counted_as_the_mask_of_the_class_leaves(tokens):
    counted = archcli.count_flops(archcli.load(SMALL), seq_len=tokens).totals["by_component"]
    # 4 heads with keys of 8 and values of 7 in two layers
    assert counted["attention_scores"] == 2 * 2 * 4 * (8 + 7) * seen_by_the_class(tokens)


@pytest.mark.parametrize("tokens", [4, 30])
def test_an_index_has_the_flops_of_its_class(tokens):
    """Over all pools, as the class runs it."""
    *_, whole, of_index = their_attention(tokens)
    counted = archcli.count_flops(archcli.load(SMALL), seq_len=tokens, mask="dense").totals["by_component"]
    assert counted["indexer"] == 2 * of_index
    # q, kv, their latents and o, and scores; both layers
    assert counted["indexer"] + counted["attention_scores"] + counted["attention_proj"] == 2 * whole


def test_a_pool_is_cached_as_one_key_and_of_the_open_one_all_tokens():
    """30 tokens: 7 pools of 4, and 2 tokens of which the key and the gate are kept."""
    contents = archcli.count_kv_cache(archcli.load(SMALL), context=30).totals["by_content"]
    assert contents["index keys"] == 2 * 7 * 6
    assert contents["open block"] == 2 * 2 * 2 * 6
    assert contents["latent"] == 2 * 30 * 9
