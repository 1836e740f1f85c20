"""GGUF files of Step 3.5: the model is that of the config.json that llama.cpp's converter is given.

Metadata and tensors as `Step35Model` of its conversion/step3.py writes them.
"""

import json
from math import prod

import pytest

from archcli import ArchError, count_params
from archcli.load.source import load_text

TYPES = ["full_attention", *["sliding_attention"] * 3] * 2
D, FF, WIDE, SHARED, HEAD, VOCAB, EXPERTS = 32, 48, 20, 24, 8, 61, 6
QUERIES = {"full_attention": 4, "sliding_attention": 6}
CONFIG = {
    "model_type": "step3p5",
    "architectures": ["Step3p5ForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": D,
    "intermediate_size": FF,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_attention_groups": 2,
    "attention_other_setting": {"num_attention_heads": 6, "num_attention_groups": 2},
    "head_dim": HEAD,
    "layer_types": TYPES,
    "sliding_window": 16,
    "rope_theta": [5_000_000.0, 10_000.0, 10_000.0, 10_000.0] * 2,
    "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0] * 2,
    "moe_num_experts": EXPERTS,
    "moe_top_k": 2,
    "moe_intermediate_size": WIDE,
    "share_expert_dim": SHARED,
    "moe_router_scaling_factor": 3.0,
    "moe_layers_enum": "3,4,5,6,7",
    "swiglu_limits": [None] * 6 + [7.0, 7.0],
    "swiglu_limits_shared": [None] * 7 + [16.0],
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
METADATA = {
    "general.architecture": "step35",
    "step35.block_count": 8,
    "step35.context_length": 128,
    "step35.embedding_length": D,
    "step35.feed_forward_length": FF,
    "step35.attention.head_count": [QUERIES[kind] for kind in TYPES],
    "step35.attention.head_count_kv": [2] * 8,
    "step35.attention.key_length": HEAD,
    "step35.attention.value_length": HEAD,
    "step35.attention.layer_norm_rms_epsilon": 1e-5,
    "step35.attention.sliding_window": 16,
    "step35.attention.sliding_window_pattern": [kind == "sliding_attention" for kind in TYPES],
    "step35.rope.freq_base": 5_000_000.0,
    "step35.rope.freq_base_swa": 10_000.0,
    "step35.expert_count": EXPERTS,
    "step35.expert_used_count": 2,
    "step35.expert_feed_forward_length": WIDE,
    "step35.expert_shared_feed_forward_length": SHARED,
    "step35.expert_weights_scale": 3.0,
    "step35.expert_weights_norm": True,
    "step35.expert_gating_func": 2,
    "step35.leading_dense_block_count": 3,
    "step35.moe_every_n_layers": 1,
    "step35.swiglu_clamp_exp": [0.0] * 6 + [7.0, 7.0],
    "step35.swiglu_clamp_shexp": [0.0] * 7 + [16.0],
}


def network(suffix, width, *stack):
    return {
        f"ffn_gate{suffix}": [*stack, width, D],
        f"ffn_up{suffix}": [*stack, width, D],
        f"ffn_down{suffix}": [*stack, D, width],
    }


def layer(index):
    heads = QUERIES[TYPES[index]]
    found = {
        **{key: [D] for key in ("attn_norm", "ffn_norm")},
        "attn_q": [heads * HEAD, D],
        **{key: [2 * HEAD, D] for key in ("attn_k", "attn_v")},
        "attn_output": [D, heads * HEAD],
        **{key: [HEAD] for key in ("attn_q_norm", "attn_k_norm")},
        "attn_gate": [heads, D],
    }
    if index < 3:
        return {**found, **network("", FF)}
    return {
        **found,
        "ffn_gate_inp": [EXPERTS, D],
        **network("_exps", WIDE, EXPERTS),
        **network("_shexp", SHARED),
    }


TENSORS = {
    "token_embd.weight": [VOCAB, D],
    "output.weight": [VOCAB, D],
    "output_norm.weight": [D],
    **{f"blk.{i}.{name}.weight": shape for i in range(8) for name, shape in layer(i).items()},
    **{f"blk.{i}.exp_probs_b.bias": [EXPERTS] for i in range(3, 8)},
}


def of_config():
    return load_text(json.dumps(CONFIG), "config.json").model


def shape(model):
    return model.replace(name="", source="", quantization=None, published_in=None)


def test_is_the_model_of_the_config_that_was_converted(asked):
    loaded = asked(METADATA, TENSORS)
    assert shape(loaded.model) == shape(of_config())
    notes = [note for note in loaded.notes if "understood" in note or "not counted" in note]
    assert notes == []
    assert any("weights that the file lists were compared" in note for note in loaded.notes)
    # of the file's tensors only the correction of the router is no weight
    sizes = sum(prod(size) for name, size in TENSORS.items() if "exp_probs_b" not in name)
    assert count_params(loaded.model).totals["params"] == sizes


def test_layers_of_prediction_behind_the_last_are_left_out(asked):
    """The converter appends them, with full attention and without a bound."""
    longer = {
        **METADATA,
        "step35.block_count": 9,
        "step35.nextn_predict_layers": 1,
        "step35.attention.head_count": [*METADATA["step35.attention.head_count"], 4],
        "step35.attention.head_count_kv": [2] * 9,
        "step35.attention.sliding_window_pattern": [
            *METADATA["step35.attention.sliding_window_pattern"],
            False,
        ],
        "step35.swiglu_clamp_exp": [*METADATA["step35.swiglu_clamp_exp"], 0.0],
        "step35.swiglu_clamp_shexp": [*METADATA["step35.swiglu_clamp_shexp"], 0.0],
    }
    assert shape(asked(longer, TENSORS).model) == shape(of_config())


def test_a_file_that_does_not_say_which_layers_slide_is_refused(asked):
    without = {key: value for key, value in METADATA.items() if not key.endswith("window_pattern")}
    with pytest.raises(ArchError, match="sliding_window_pattern"):
        asked(without, TENSORS)


def test_an_unknown_architecture_names_few_others(asked):
    with pytest.raises(ArchError, match="'zzz' is not supported; ") as error:
        asked({"general.architecture": "zzz"}, TENSORS)
    assert len(str(error.value)) < 160
