"""Which layers of MiniMax-M3 choose blocks of keys, how many keys they read, and what of them is refused."""

import pytest
import torch
from transformers import MiniMaxM3VLTextConfig
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLIndexer

import archcli
from archcli.errors import ArchError
from importing import imported_file
from table import every_row

SMALL = {
    "architectures": ["MiniMaxM3VLForCausalLM"],
    "model_type": "minimax_m3_vl_text",
    "vocab_size": 31,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "partial_rotary_factor": 0.5,
    "num_hidden_layers": 3,
    "intermediate_size": 10,
    "shared_intermediate_size": 10,
    "dense_intermediate_size": 20,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}
SIZES = {
    "sparse_num_index_heads": 2,
    "sparse_index_dim": 6,
    "sparse_block_size": 4,
    "sparse_topk_blocks": 3,
    "sparse_local_block": 1,
}
SPARSE = "minimax_m3_sparse"


def config(sparse=None, **more):
    flags = {"sparse_attention_freq": [0, 1, 1], **SIZES, **(sparse or {})}
    return {**SMALL, "sparse_attention_config": flags, **more}


def indexes(sparse=None, **more):
    """The index of each layer."""
    groups = imported_file(config(sparse, **more)).groups
    each = [group.blocks[i % len(group.blocks)] for group in groups for i in range(group.n_layers)]
    return [block.attention.index for block in each]


def test_flags_say_which_layers_have_an_index():
    none, *others = indexes()
    sizes = [(index.n_heads, index.head_dim, index.block, index.top_k, index.local) for index in others]
    assert none is None
    assert sizes == [(2, 6, 4, 3, 1)] * 2


def test_types_of_layers_come_before_flags():
    found = indexes(layer_types=[SPARSE, "full_attention", "full_attention"])
    assert [index is not None for index in found] == [True, False, False]


def test_sizes_beside_the_text_stand_in_for_those_that_are_left_out():
    flags = {"sparse_attention_freq": [1, 1, 1], "sparse_topk_blocks": 2}
    model = imported_file(
        {**SMALL, "sparse_attention_config": flags, "index_n_heads": 1, "index_topk_blocks": 9}
    )
    index = model.groups[0].layer.attention.index
    # others are the class's: a head is 128 wide, a block has 128 tokens, the own one is always read
    assert (index.n_heads, index.head_dim, index.block, index.top_k, index.local) == (1, 128, 128, 2, 1)


REFUSED = {
    "values": ({"sparse_disable_index_value": [1, 1, 0]}, "an index with values is not supported"),
    "first blocks": ({"sparse_init_block": 1}, "sparse_init_block 1 is not supported"),
    "means": ({"sparse_score_type": "mean"}, "sparse_score_type 'mean' is not supported"),
    "switched off": ({"use_sparse_attention": False}, "use_sparse_attention False is not supported"),
    # which keys of its own block a query then reads, the tokens say
    "no block of its own": ({"sparse_local_block": 0}, "sparse_local_block must be a whole number above 0"),
    "more local than chosen": ({"sparse_local_block": 4}, "local 4 is more than top_k 3"),
    "heads": ({"sparse_num_index_heads": 3}, "3 index heads do not divide n_heads 4"),
    "too few flags": ({"sparse_attention_freq": [1]}, "must have an entry for each of 3 layers"),
}


@every_row("name", REFUSED)
def test_what_the_class_does_not_do_is_refused(name):
    sparse, message = REFUSED[name]
    with pytest.raises(ArchError, match=message):
        imported_file(config(sparse))


def test_another_type_of_layer_is_refused():
    with pytest.raises(ArchError, match="'sliding_attention' is not supported"):
        imported_file(config(layer_types=["sliding_attention"] * 3))


def seen_by_the_class(tokens, new):
    """(query head, key) pairs of the last `new` of all tokens, by the mask that the class's indexer makes."""
    torch.manual_seed(0)
    theirs = MiniMaxM3VLTextConfig(**{key: value for key, value in config().items() if key != "model_type"})
    indexer, places = MiniMaxM3VLIndexer(theirs, 1), torch.arange(tokens)[None]
    for weight in indexer.parameters():
        torch.nn.init.normal_(weight)
    angles = torch.ones(1, tokens, 4), torch.zeros(1, tokens, 4)
    with torch.no_grad():
        chosen = indexer(torch.randn(1, tokens, 16), angles, None, places)
    mask = indexer.build_block_mask(chosen, None, tokens, torch.float32, torch.device("cpu"), places)
    return int((mask[:, :, tokens - new :] == 0).sum())


@pytest.mark.parametrize("tokens", [1, 4, 11, 12, 13, 30])
def test_as_many_pairs_are_counted_as_the_mask_of_the_class_leaves(tokens):
    model = archcli.load(config())
    # in each of the two layers keys and values of 8 numbers
    full, indexed = 4 * tokens * (tokens + 1) // 2, seen_by_the_class(tokens, tokens)
    counted = archcli.count_flops(model, seq_len=tokens).totals["by_component"]["attention_scores"]
    assert counted == 2 * (8 + 8) * (full + 2 * indexed)


def test_a_decoded_token_reads_the_chosen_blocks():
    counted = archcli.count_flops(archcli.load(config()), phase="decode", past=29).totals["by_component"]
    # 2 blocks of 4, and of its own the keys 28 and 29
    assert seen_by_the_class(30, 1) == 4 * (2 * 4 + 2)
    assert counted["attention_scores"] == 2 * (8 + 8) * 4 * (30 + 2 * (2 * 4 + 2))
    matrices = 2 * (16 * 2 * 6 + 16 * 6)
    assert counted["indexer"] == 2 * (matrices + 2 * 2 * 6 * 30)


def test_the_cache_has_a_key_of_the_index_beside_keys_and_values():
    totals = archcli.count_kv_cache(archcli.load(config()), context=50).totals
    assert totals["elements"] == 50 * (3 * 2 * (8 + 8) + 2 * 6)
