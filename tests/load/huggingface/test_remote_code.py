"""Families whose class is in their repositories: published totals, classes of the same construction, names.

No class of transformers reads these files. What they say is compared with a class that is built alike.
"""

import json
import math

import pytest
import torch
import transformers

from archcli.errors import ArchError
from archcli.load.source import load_text
from archcli.measure.passes import forward_pass
from hub.compared import against, told, wrong
from remote.alike import ALIKE, MINICPM, SIZES, S
from remote.names import ENDS, LLAMA_LAYER, NAMES, SEPARATE, WORDS, F, N
from remote.published import PUBLISHED
from table import every_row, sampled_rows

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend


def loaded(config):
    return load_text(json.dumps({"architectures": ["XForCausalLM"], **config}), "f")


def our_total(config):
    return sum(row.params for row in forward_pass(loaded(config).model, 1, 1).rows)


@sampled_rows("name", PUBLISHED, 4)
def test_the_total_is_the_published_one(name):
    config, total = PUBLISHED[name]
    assert our_total(config) == total
    assert loaded(config).notes == ()


def test_minicpm_has_as_many_weights_beside_its_table_as_its_paper_says():
    """arXiv:2404.06395 table 2: 2,442,057,984 and 1,247,442,432 without the embedding."""
    large = {"hidden_size": 2304, "intermediate_size": 5760, "num_hidden_layers": 40}
    small = {"hidden_size": 1536, "intermediate_size": 3840, "num_hidden_layers": 52}
    small["num_key_value_heads"] = 8
    for config, rest in ((large, 2_442_057_984), (small, 1_247_442_432)):
        heads = config["hidden_size"] // 64
        whole = {"model_type": "minicpm", "vocab_size": 122753, "num_attention_heads": heads, **config}
        assert our_total(whole) == rest + 122753 * config["hidden_size"]


@sampled_rows("name", ALIKE, 4)
def test_the_model_is_that_of_a_class_built_alike(name):
    theirs, alike = ALIKE[name]
    assert loaded(theirs).model == loaded(alike).model
    config = transformers.AutoConfig.for_model(**json.loads(json.dumps(alike)))
    with torch.device("meta"):
        cls = transformers.AutoModelForCausalLM.from_config(config)
    assert our_total(theirs) == sum(weight.numel() for weight in cls.parameters())


def test_minicpm_is_llama_with_scaled_embeddings_residuals_and_logits():
    model, llama = loaded(MINICPM).model, loaded({"model_type": "llama", **SIZES}).model
    assert (model.embedding.tied, model.embedding.scale, model.head.scale) == (True, 12.0, 6 / 24)
    [block], [plain] = model.groups[0].blocks, llama.groups[0].blocks
    assert block == plain.replace(residual_multiplier=1.5 / 3**0.5)


def test_the_large_baichuan_has_alibi_in_place_of_rope():
    small, large = (
        loaded({"model_type": "baichuan", **S, **context}).model
        for context in ({"max_position_embeddings": 64}, {"model_max_length": 64})
    )
    kinds = [model.groups[0].blocks[0].attention.position.kind for model in (small, large)]
    assert kinds == ["rope", "alibi"]
    assert large.max_seq_len == 64
    first = {"model_type": "baichuan", **S, "architectures": ["BaiChuanForCausalLM"]}
    assert loaded(first).model.groups[0].blocks[0].attention.position.kind == "rope"


def test_btlm_is_gpt2_with_alibi_swiglu_and_scales():
    sizes = {"vocab_size": 88, "n_embd": 24, "n_layer": 3, "n_head": 6, "n_inner": 20, "n_positions": 64}
    scales = {"width_scale": 0.5, "embeddings_scale": 14.6, "scale_qk_dot_by_d": True}
    alibi = {**sizes, "activation_function": "swiglu", "position_embedding_type": "alibi"}
    btlm = {f"mup_{key}": value for key, value in scales.items()}
    model = loaded({"model_type": "btlm", **alibi, **btlm, "mup_output_alpha": 2.2}).model
    assert model == loaded({"model_type": "jais", **alibi, **scales, "mup_output_alpha": 2.2}).model
    assert model.embedding.scale == 14.6
    assert model.head.scale == 2.2 * 0.5
    assert model.groups[0].blocks[0].attention.scale == 1 / 4
    layer = 4 * (24 * 24 + 24) + 3 * 24 * 20 + 2 * 20 + 24 + 4 * 24
    assert our_total({"model_type": "btlm", **alibi, **btlm}) == 88 * 24 + 3 * layer + 2 * 24
    plain = {"model_type": "btlm", **sizes}
    assert our_total(plain) == our_total({**plain, "model_type": "gpt2"})


D, HEADS, V = 24, 6, 88
NAS = {"model_type": "nemotron-nas", **S, "num_hidden_layers": 4, "max_position_embeddings": 64}
NO_OP = {"no_op": True, "n_heads_in_group": None, "ffn_mult": None, "replace_with_linear": False}


def nas(*blocks):
    return {**NAS, "num_hidden_layers": len(blocks), "block_configs": list(blocks)}


def test_blocks_have_heads_and_networks_of_their_own_or_none():
    """A width of int(2 * 14 * 24 / 3) = 224 becomes 256, one of 2 * 40 * 24 / 3 = 640 becomes 768."""
    blocks = (
        {"attention": {"n_heads_in_group": 3, "window_length": None}, "ffn": {"ffn_mult": 14}},
        {"attention": NO_OP, "ffn": {"ffn_mult": 40.0, "sparsify": None}},
        {"attention": {"n_heads_in_group": 6}, "ffn": NO_OP},
        {"attention": NO_OP, "ffn": NO_OP},
    )
    first = 2 * D * D + 2 * D * 2 * 4 + 3 * D * 256 + 2 * D
    second, third = 3 * D * 768 + D, 2 * D * D + 2 * D * 4 + D
    assert our_total(nas(*blocks)) == 2 * V * D + first + second + third + D
    [note] = loaded(nas(*blocks)).notes
    assert note.startswith("layers without attention and network are passed over")
    assert loaded(nas(*blocks[:3])).notes == ()


REFUSED = {
    "linear attention": (
        nas({"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 1.0}}),
        "replace_with_linear True is not supported",
    ),
    "sinks": (
        nas({"attention": {"n_heads_in_group": 1, "num_sink_tokens": 4}, "ffn": {"ffn_mult": 1.0}}),
        "num_sink_tokens 4 is not supported",
    ),
    "a mixture": (nas({"attention": NO_OP, "ffn": {"moe": {"n": 8}}}), "moe .* is not supported"),
    "odd heads": (nas({"attention": {"n_heads_in_group": 4}, "ffn": NO_OP}), "6 heads are no multiple"),
    "no blocks": (NAS, "'block_configs' is missing"),
    "few blocks": ({**nas(), "num_hidden_layers": 2}, "an entry for each of 2 layers"),
    "empty blocks": (nas({"attention": NO_OP, "ffn": NO_OP}), "no layer has attention"),
    "a word": (nas("attention"), "no mapping: 'attention'"),
    "minicpm-moe": ({"model_type": "minicpm", "num_experts": 8}, "num_experts 8 is not supported"),
    "deepseek": ({"model_type": "deepseek", "scoring_func": "sigmoid"}, "scoring_func 'sigmoid'"),
    "mixformer": (
        {"model_type": "mixformer-sequential", "architecture": {"block_cls": "sequential"}},
        "block_cls 'sequential'",
    ),
    "a mixer of mamba_ssm": (
        {"model_type": "mamba_ssm", "ssm_cfg": {"layer": "Mamba3"}},
        "layer 'Mamba3' is not supported",
    ),
    "layers of attention": (
        {"model_type": "mamba_ssm", "ssm_cfg": {}, "attn_layer_idx": [9]},
        r"attn_layer_idx \[9\] is not supported",
    ),
    "kinds of minimax": (
        {"model_type": "minimax_m1", "postnorm": True, "num_hidden_layers": 1, "attn_type_list": [2]},
        "attn_type_list 2 is not supported",
    ),
    "no kinds of minimax": (
        {"model_type": "minimax_m1", "postnorm": True},
        "'attn_type_list' is missing",
    ),
    "deci": ({"model_type": "deci"}, "'num_key_value_heads_per_layer' is missing"),
    "openelm": ({"model_type": "openelm"}, "num_query_heads must have a number above 0 for each layer"),
    "qwen": ({"model_type": "qwen", "scale_attn_weights": False}, "scale_attn_weights False"),
    "telechat": (
        {"model_type": "telechat", "embed_layernorm": True},
        "embed_layernorm True is not supported",
    ),
}


@every_row("name", REFUSED)
def test_what_cannot_be_expressed_is_refused_by_name(name):
    config, said = REFUSED[name]
    with pytest.raises(ArchError, match=said):
        loaded(config)


@pytest.mark.parametrize("name", NAMES)
def test_the_names_of_a_repository_are_the_weights(name):
    begin, layer, others = NAMES[name]
    file = MINICPM if name == "minicpm" else ALIKE[name][0]
    config = {**file, "architectures": ["XForCausalLM"]}
    held = {f"{begin}{i}.{tensor}": shape for i in range(3) for tensor, shape in layer.items()}
    found = against(config, {**held, **others})
    assert wrong(found) == set()
    assert set(told(found).values()) <= {"tied weight, stored again"}


def test_telechat_is_llama_with_biases_where_the_stream_is_written():
    sizes = {"vocab_size": WORDS, "hidden_size": N, "n_layer": 2, "n_head": 6, "ffn_hidden_size": F}
    config = {"model_type": "telechat", "architectures": ["TelechatForCausalLM"], **sizes}
    layer = {
        "input_layernorm.weight": (N,),
        "self_attention.query.weight": (N, N),
        "self_attention.key_value.weight": (2 * N, N),
        "self_attention.dense.weight": (N, N),
        "self_attention.dense.bias": (N,),
        "post_attention_layernorm.weight": (N,),
        "mlp.gate_proj.weight": (F, N),
        "mlp.up_proj.weight": (F, N),
        "mlp.down_proj.weight": (N, F),
        "mlp.down_proj.bias": (N,),
    }
    held = {f"transformer.h.{i}.{name}": shape for i in range(2) for name, shape in layer.items()}
    ends = {"transformer.word_embeddings.weight": (WORDS, N), "transformer.ln_f.weight": (N,)}
    assert wrong(against(config, {**held, **ends})) == set()
    assert our_total(config) == sum(math.prod(shape) for shape in {**held, **ends}.values())


def test_the_first_phi_counts_the_embedding_as_a_layer():
    _, layer, _ = NAMES["phi-msft"]
    held = {f"layers.{i + 1}.{name}": shape for i in range(3) for name, shape in layer.items()}
    ends = {"ln.weight": (N,), "ln.bias": (N,), "linear.weight": (128, N), "linear.bias": (128,)}
    held |= {"layers.0.wte.weight": (128, N), **{f"layers.4.{name}": shape for name, shape in ends.items()}}
    config = {**ALIKE["mixformer-sequential"][0], "architectures": ["MixFormerSequentialForCausalLM"]}
    assert wrong(against(config, held)) == set()


def test_the_experts_of_deepseek_are_named_one_by_one():
    sizes = {"n_routed_experts": 4, "n_shared_experts": 2, "num_experts_per_tok": 2}
    config = {"model_type": "deepseek", **SIZES, **sizes, "moe_intermediate_size": 8}
    config |= {"first_k_dense_replace": 1, "architectures": ["DeepseekForCausalLM"]}
    attention = {**LLAMA_LAYER, **SEPARATE}
    held = {f"model.layers.0.{name}": shape for name, shape in attention.items()}
    for i in (1, 2):
        rest = {name: shape for name, shape in attention.items() if "mlp" not in name}
        held |= {f"model.layers.{i}.{name}": shape for name, shape in rest.items()}
        held[f"model.layers.{i}.mlp.gate.weight"] = (4, N)
        for part, width in (*((f"experts.{j}", 8) for j in range(4)), ("shared_experts", 16)):
            for name in ("gate", "up"):
                held[f"model.layers.{i}.mlp.{part}.{name}_proj.weight"] = (width, N)
            held[f"model.layers.{i}.mlp.{part}.down_proj.weight"] = (N, width)
    assert wrong(against(config, {**held, **ENDS})) == set()


def test_code_of_a_repository_is_not_run():
    config = {**ALIKE["internlm2"][0], "auto_map": {"AutoConfig": "configuration_internlm2.InternLM2Config"}}
    assert loaded(config).notes == ("the file points to code of its own (auto_map), which is not run",)
