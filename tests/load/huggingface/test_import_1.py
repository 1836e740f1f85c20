"""Llama to GLM: imported random configs against Hugging Face's classes."""

import copy
from typing import Any, NamedTuple

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from archcli.errors import ArchError
from archcli.graph import OpClass
from archcli.measure.passes import forward_pass
from drawing import OPTIONS, TINY, cases
from importing import imported
from table import every_row

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

BATCH, LENGTH = 2, 9
EACH_FAMILY = pytest.mark.parametrize("model_type", OPTIONS)
REQUIRED = {"nemotron": {"num_key_value_heads": 48}}  # the class has no default that it can use


def ours(model_type, config):
    return imported(model_type, config)


def theirs(model_type, config, device="meta"):
    config = transformers.AutoConfig.for_model(
        model_type, **copy.deepcopy(config)
    )  # they write into the mappings they are given
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", experts_implementation="eager"
        ).eval()


def total(model):
    return sum(p.numel() for p in model.parameters())


def our_total(model):
    return sum(row.params for row in forward_pass(model, 1, 1).rows)


def layers(model):
    """One block per layer."""
    return [group.blocks[i % len(group.blocks)] for group in model.groups for i in range(group.n_layers)]


@pytest.mark.sample(1, whole=True)
@EACH_FAMILY
def test_an_empty_config_is_the_default_of_the_class(model_type):
    config = REQUIRED.get(model_type, {})
    assert our_total(ours(model_type, config)) == total(theirs(model_type, config))


class Case(NamedTuple):
    """One config: our model and theirs."""

    ours: Any
    theirs: Any


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((kind, config), id=f"{kind}-{name}", marks=pytest.mark.sample(15))
        for kind, name, config in cases()
    ],
)
def case(request):
    model_type, config = request.param
    return Case(ours(model_type, config), theirs(model_type, config, "cpu"))


def check_parameters(case):
    assert our_total(case.ours) == total(case.theirs)


def check_flops(case):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        case.theirs(torch.zeros((BATCH, LENGTH), dtype=torch.int64), use_cache=False)
    parts = [(part, row) for row in forward_pass(case.ours, BATCH, LENGTH).rows for part in row.parts]
    assert (
        sum(part.unmasked_flops * row.times for part, row in parts if part.op_class is OpClass.CONTRACTION)
        == counter.get_total_flops()
    )


def check_windows_of_their_cache(case):
    kept = [
        getattr(layer, "sliding_window", None)
        for layer in transformers.DynamicCache(config=case.theirs.config).layers
    ]
    windows = [block.attention.window for block in layers(case.ours)]
    assert windows == (kept or [None] * len(windows))


def check_frequencies_of_rope(case):
    rotary, config = case.theirs.model.rotary_emb, case.theirs.config
    for index, block in enumerate(layers(case.ours)):
        place = block.attention.position
        if place.kind == "none":
            assert config.no_rope_layers[index] == 0
            continue
        name = f"{config.layer_types[index]}_" if config.model_type == "gemma3_text" else ""
        width = place.rotary_dim or block.attention.width(case.ours.d_model)
        torch.testing.assert_close(
            place.frequencies(torch, width, torch.arange(LENGTH)), getattr(rotary, f"{name}inv_freq")
        )
        assert place.scaling.amplitude == pytest.approx(getattr(rotary, f"{name}attention_scaling", 1.0))


CHECKS = (check_parameters, check_flops, check_windows_of_their_cache, check_frequencies_of_rope)


@pytest.mark.sample(1, whole=True)
@every_row("check", CHECKS, ids=[check.__name__ for check in CHECKS])
def test_a_config_is_the_model_of_their_class(case, check):
    check(case)


# what becomes of a ChatGLM file in the class that transformers has for it
CHATGLM = {
    "hidden_size": 96,
    "num_layers": 3,
    "padded_vocab_size": 61,
    "ffn_hidden_size": 52,
    "num_attention_heads": 6,
    "kv_channels": 20,
    "seq_length": 40,
}
AS_GLM = {**TINY, "num_hidden_layers": 3, "num_attention_heads": 6, "head_dim": 20}


@every_row(
    ("stated", "mapped"),
    [
        ({}, {"num_key_value_heads": 6, "attention_bias": False}),
        ({"add_qkv_bias": True}, {"num_key_value_heads": 6, "attention_bias": True}),
        (
            {"multi_query_attention": True, "multi_query_group_num": 2},
            {"num_key_value_heads": 2, "attention_bias": False},
        ),
        (
            {"multi_query_group_num": 2, "rope_ratio": 50},
            {"num_key_value_heads": 6, "attention_bias": False, "rope_theta": 500000.0},
        ),
        (
            {"kv_channels": 16, "vocab_size": 9},
            {"num_key_value_heads": 6, "attention_bias": False, "head_dim": 16},
        ),
        (
            {"tie_word_embeddings": True},
            {"num_key_value_heads": 6, "attention_bias": False, "tie_word_embeddings": True},
        ),
    ],
    ids=lambda value: "-".join(value) or "plain",
)
def test_a_chatglm_is_the_glm_of_the_same_sizes(stated, mapped):
    mine, model = ours("chatglm", {**CHATGLM, **stated}), theirs("glm", {**AS_GLM, **mapped}, "cpu")
    assert our_total(mine) == total(model)
    place, width = mine.groups[0].layer.attention.position, mapped.get("head_dim", 20) // 2
    torch.testing.assert_close(
        place.frequencies(torch, width, torch.arange(LENGTH)), model.model.rotary_emb.inv_freq
    )
    assert place.pairing == "interleaved"


def test_the_norms_and_biases_of_an_odd_chatglm_are_counted():
    plain, odd = (
        ours("chatglm", CHATGLM),
        ours("chatglm", {**CHATGLM, "rmsnorm": False, "post_layer_norm": False, "add_bias_linear": True}),
    )
    norms = 2 * 3 * 96 - 96  # a bias for each of two norms in three layers; the final norm's weight is gone
    biases = 3 * (3 * 6 * 20 + 96 + 2 * 52 + 96)
    assert our_total(odd) - our_total(plain) == norms + biases


ENCODES = {"architectures": ["Gemma3ForCausalLM"], "use_bidirectional_attention": True}


@every_row(
    ("model_type", "config", "named"),
    [
        ("llama", {"hidden_act": "mish"}, "mish"),
        ("llama", {"hidden_act": ["silu"]}, "activation"),
        ("llama", {"rope_scaling": {"type": "longrope"}}, "short_factor"),
        ("llama", {"rope_scaling": {"type": "linear"}}, "factor"),
        ("llama", {"rope_scaling": {"type": "mrope"}}, "mrope"),
        ("llama", {"rope_scaling": "linear"}, "rope_scaling"),
        ("llama", {"rope_theta": "10000"}, "rope_theta"),
        ("llama", {"num_attention_heads": 100000}, "num_attention_heads|heads"),
        ("llama", {"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ("llama", {"num_hidden_layers": True}, "num_hidden_layers"),
        ("llama", {"hidden_size": 4096.5}, "hidden_size"),
        ("llama", {"rms_norm_eps": "1e-5"}, "rms_norm_eps"),
        ("llama", {"tie_word_embeddings": "no"}, "tie_word_embeddings"),
        ("qwen2", {"layer_types": ["full_attention"]}, "layer_types"),
        ("qwen2", {"layer_types": ["chunked_attention"] * 32}, "chunked_attention"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 32}, "sliding_attention"),
        ("qwen2_moe", {"shared_expert_intermediate_size": 0}, "shared_expert_intermediate_size"),
        ("qwen3_moe", {"decoder_sparse_step": 0}, "decoder_sparse_step"),
        ("qwen3_moe", {"mlp_only_layers": "none"}, "mlp_only_layers"),
        ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma2", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar"),
        ("gemma3_text", ENCODES, "use_bidirectional_attention"),
        ("smollm3", {"no_rope_layers": [1]}, "no_rope_layers"),
        ("smollm3", {"layer_types": ["sliding_attention"] * 36}, "sliding_attention"),
        ("starcoder2", {"mlp_type": "gated"}, "mlp_type"),
        ("granite", {"logits_scaling": 0}, "logits_scaling"),
        ("cohere", {"logit_scale": -1.0}, "logit_scale"),
        (
            "chatglm",
            {"apply_residual_connection_post_layernorm": True},
            "apply_residual_connection_post_layernorm",
        ),
        ("chatglm", {"pre_seq_len": 128}, "pre_seq_len"),
        ("chatglm", {"position_encoding_2d": True, "inner_hidden_size": 16384}, "first generation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_expressed_is_refused_by_name(model_type, config, named):
    with pytest.raises(ArchError, match=named):
        ours(model_type, config)
