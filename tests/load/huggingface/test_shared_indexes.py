"""Which layers have an index, by the keys of GLM-5 and Hy4, and what of them is refused."""

import pytest

from archcli.errors import ArchError
from importing import imported_file
from table import every_row

SMALL = {
    "vocab_size": 31,
    "hidden_size": 16,
    "intermediate_size": 20,
    "moe_intermediate_size": 10,
    "num_attention_heads": 2,
    "q_lora_rank": 6,
    "kv_lora_rank": 5,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 3,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "index_head_dim": 8,
    "index_n_heads": 3,
}


def config(kind, layers, **more):
    name = {"glm_moe_dsa": "GlmMoeDsa", "hy_v4": "HYV4"}[kind]
    architectures = [f"{name}ForCausalLM"]
    return {"architectures": architectures, "model_type": kind, **SMALL, "num_hidden_layers": layers, **more}


def sources(kind, layers, **more):
    """For each layer the one whose index it reads."""
    groups = imported_file(config(kind, layers, **more)).groups
    each = [group.blocks[i % len(group.blocks)] for group in groups for i in range(group.n_layers)]
    return [block.attention.index_from for block in each]


# the classes' own answers: transformers 5.23.0, `indexer_types` of GlmMoeDsaConfig and HYV4Config
SHARED = {
    "every layer": (("glm_moe_dsa", 3), {}, [None] * 3),
    "words": (("glm_moe_dsa", 3), {"indexer_types": ["full", "shared", "full"]}, [None, 0, None]),
    "letters": (("glm_moe_dsa", 4), {"index_topk_pattern": "FFSS"}, [None, None, 1, 1]),
    "words for letters": (
        ("glm_moe_dsa", 3),
        {"index_topk_pattern": ["full", "shared", "shared"]},
        [None, 0, 0],
    ),
    "steps": (("glm_moe_dsa", 6), {"index_topk_freq": 2}, [None, None, 1, None, 3, None]),
    "later steps": (
        ("glm_moe_dsa", 6),
        {"index_topk_freq": 3, "index_skip_topk_offset": 1},
        [None, 0, 0, None, 3, 3],
    ),
    "first and each fourth": (("hy_v4", 7), {}, [None, None, 1, 1, 1, None, 5]),
    "stated": (("hy_v4", 3), {"indexer_types": ["full", "shared", "shared", "full"]}, [None, 0, 0]),
}


@every_row("name", SHARED)
def test_layers_read_the_last_index_before_them(name):
    asked, more, expected = SHARED[name]
    assert sources(*asked, **more) == expected


REFUSED = {
    "none before": (
        {"indexer_types": ["shared", "full"]},
        "layer 0 shares the index of an earlier layer, and",
    ),
    "too few": ({"indexer_types": ["full"]}, "does not say of each of 2 layers what index it has"),
    "letters in a list": ({"indexer_types": ["F", "S"]}, "known: full, shared"),
    "one stream": ({"hc_mult": 1}, "hc_mult 1 is not supported"),
    "no bound": ({"swiglu_limit": 0.0}, "swiglu_limit must be above 0"),
    "no magnitude": ({"hc_magnitude": 0.0}, "hc_magnitude must be above 0"),
    "no latent": ({"q_lora_rank": None}, "q_lora_rank null is not supported"),
    "negative eps": ({"hc_eps": -0.1}, "eps must be"),
    "another type": (
        {"layer_types": ["indexed_attention", "full_attention"]},
        "'full_attention' is not supported",
    ),
}


@every_row("name", REFUSED)
def test_what_hy4_does_not_say_is_refused(name):
    more, message = REFUSED[name]
    with pytest.raises(ArchError, match=message):
        imported_file(config("hy_v4", 2, **more))


def test_a_predicted_token_has_an_index_of_its_own():
    more = {"indexer_types": ["full", "shared"], "mlp_layer_types": ["sparse"] * 2}
    made = imported_file(config("glm_moe_dsa", 2, num_nextn_predict_layers=1, **more))
    assert made.mtp.layer.attention.index == made.groups[0].blocks[0].attention.index
    assert made.mtp.layer.attention.index_from is None
