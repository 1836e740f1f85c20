"""Names as files of the hub hold them: what each stores besides weights is explained, and nothing else is.

No tensor has values here.
"""

import pytest
import torch
import transformers

from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import WeightMap
from archcli.measure.checkpoint import compare, compare_sums
from archcli.measure.state_dict import tensors
from drawing import TINY
from hub_files import BERT, BERT_FILE, CHATGLM, CHATGLM_FILE, GPT2, GPT2_FILE, OSS, V3
from importing import imported_file

LLAMA = {
    **TINY,
    "model_type": "llama",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "architectures": ["LlamaForCausalLM"],
}
D, F, V, KV = (
    TINY["hidden_size"],
    TINY["intermediate_size"],
    TINY["vocab_size"],
    4 * (TINY["hidden_size"] // 4),
)


def llama_file(prefix="model."):
    layer = {
        "self_attn.q_proj.weight": (D, D),
        "self_attn.k_proj.weight": (KV, D),
        "self_attn.v_proj.weight": (KV, D),
        "self_attn.o_proj.weight": (D, D),
        "mlp.gate_proj.weight": (F, D),
        "mlp.up_proj.weight": (F, D),
        "mlp.down_proj.weight": (D, F),
        "input_layernorm.weight": (D,),
        "post_attention_layernorm.weight": (D,),
    }
    whole = {f"{prefix}embed_tokens.weight": (V, D), f"{prefix}norm.weight": (D,)}
    return {
        **whole,
        **{f"{prefix}layers.{i}.{name}": shape for i in range(2) for name, shape in layer.items()},
    }


HEADED = {**llama_file(), "lm_head.weight": (V, D)}


def against(config, held):
    return compare(imported_file(config), held, weight_map(config))


def told(found):
    """(name, reason) of all that is explained."""
    return {
        line.name: line.reason
        for line in found.lines
        if line.status not in {"same", "missing", "unexpected", "shape"}
    }


def wrong(found):
    return {
        (line.status, line.name) for line in found.lines if line.status in {"missing", "unexpected", "shape"}
    }


def test_a_checkpoint_of_the_base_class_has_no_prefix():
    config = {**LLAMA, "architectures": ["LlamaModel"]}
    found = against(config, llama_file(""))
    assert {line.status for line in found.lines} == {"same"}


EXTRAS = {
    "rotary": ({"model.layers.0.self_attn.rotary_emb.inv_freq": (8,)}, "rotary table"),
    "rotary-once": ({"model.rotary_emb.inv_freq": (8,)}, "rotary table"),
    "fp8": ({"model.layers.0.mlp.up_proj.weight_scale_inv": (1, 1)}, "scale of a quantized weight"),
    "fp8-static": ({"model.layers.1.self_attn.q_proj.input_scale": ()}, "scale of a quantized weight"),
    "kv-scale": ({"model.layers.1.self_attn.k_proj.k_scale": (1,)}, "scale of a quantized weight"),
    "vision": ({"vision_tower.blocks.0.attn.qkv.weight": (9, 3)}, "tower"),
    "projector": ({"multi_modal_projector.linear_1.weight": (9, 3)}, "tower"),
    "optimizer": ({"optimizer.state.0": (3,), "model.norm.weight.exp_avg": (D,)}, "optimizer"),
    "masked-bias": ({"model.layers.0.self_attn.masked_bias": ()}, "attention mask"),
}


@pytest.mark.parametrize("name", EXTRAS)
def test_what_files_hold_besides_is_explained(name):
    extra, reason = EXTRAS[name]
    found = against(LLAMA, {**HEADED, **extra})
    assert wrong(found) == set()
    assert told(found).keys() == extra.keys()
    assert all(reason in why for why in told(found).values())


UNEXPLAINED = {
    "a bias": "model.layers.0.self_attn.q_proj.bias",
    "a layer too many": "model.layers.2.self_attn.q_proj.weight",
    "a vector that is no mask": "model.layers.0.self_attn.bias",
    "another norm": "model.layers.0.self_attn.q_norm.weight",
    "a head's bias": "lm_head.bias",
    "a family's word for a layer": "model.layers.*.mlp.up_proj.weight",
    "a padded index": "model.layers.00.mlp.up_proj.weight",
    "nothing": "",
    "dots": "model..norm.weight",
}


@pytest.mark.parametrize("name", UNEXPLAINED)
def test_what_nobody_knows_is_unexpected(name):
    found = against(LLAMA, {**HEADED, UNEXPLAINED[name]: (D,)})
    assert wrong(found) == {("unexpected", UNEXPLAINED[name])}


def test_what_is_missing_misshapen_or_renamed_is_told_by_their_names():
    held = {**HEADED, "model.norm.weight": (D + 1,)}
    del held["model.layers.1.mlp.up_proj.weight"]
    held["model.layers.0.mlp.up.weight"] = held.pop("model.layers.0.mlp.up_proj.weight")
    assert wrong(against(LLAMA, held)) == {
        ("shape", "model.norm.weight"),
        ("missing", "model.layers.1.mlp.up_proj.weight"),
        ("missing", "model.layers.0.mlp.up_proj.weight"),
        ("unexpected", "model.layers.0.mlp.up.weight"),
    }


def test_a_name_alone_is_enough_where_the_shard_is_not_there():
    held = dict.fromkeys(HEADED)
    assert wrong(against(LLAMA, held)) == set()
    del held["lm_head.weight"]
    assert wrong(against(LLAMA, held)) == {("missing", "lm_head.weight")}


def test_a_tied_head_may_be_stored_and_must_fit():
    tied = {**LLAMA, "tie_word_embeddings": True}
    assert told(against(tied, HEADED)) == {"lm_head.weight": "tied weight, stored again"}
    alone = {name: shape for name, shape in HEADED.items() if "embed_tokens" not in name}
    assert wrong(against(tied, alone)) == set()
    assert wrong(against(tied, {**HEADED, "lm_head.weight": (V, D + 1)})) == {("shape", "lm_head.weight")}
    assert wrong(against(tied, {**HEADED, "lm_head.bias": (V,)})) == {("unexpected", "lm_head.bias")}


def test_one_weight_under_two_names_that_are_not_tied_is_unexpected():
    found = against(LLAMA, {**HEADED, "norm.weight": (D,)})
    assert wrong(found) == {("unexpected", "norm.weight")}


def test_a_head_that_the_class_does_not_have_is_explained():
    found = against({**LLAMA, "architectures": ["LlamaModel"]}, {**llama_file(), "lm_head.weight": (V, D)})
    assert told(found) == {"lm_head.weight": "head that this architecture's class does not have"}


def test_packed_weights_are_told_and_not_compared():
    held = dict(HEADED)
    shape = held.pop("model.layers.0.mlp.up_proj.weight")
    gptq = {
        "qweight": (shape[1] // 8, shape[0]),
        "qzeros": (1, shape[0] // 8),
        "scales": (1, shape[0]),
        "g_idx": (shape[1],),
    }
    found = against(
        LLAMA, {**held, **{f"model.layers.0.mlp.up_proj.{name}": own for name, own in gptq.items()}}
    )
    assert wrong(found) == set()
    assert told(found)["model.layers.0.mlp.up_proj.qweight"].startswith("packed weight")
    assert len(told(found)) == 4


def test_a_weight_that_bitsandbytes_packed_keeps_its_name():
    name = "model.layers.0.mlp.up_proj.weight"
    four = {
        name: (D * F // 2, 1),
        f"{name}.absmax": (9,),
        f"{name}.quant_map": (16,),
        f"{name}.quant_state.bitsandbytes__nf4": (90,),
    }
    found = against(LLAMA, {**HEADED, **four})
    assert wrong(found) == set()
    assert told(found).keys() == four.keys()
    assert wrong(against(LLAMA, {**HEADED, name: (D * F // 2, 1)})) == {("shape", name)}


def test_a_multimodal_file_holds_the_language_model_above_or_below():
    config = {"model_type": "gemma3", "text_config": {**TINY, "num_hidden_layers": 1}, "vision_config": {}}
    model = imported_file(config)
    weights = weight_map(config)
    names = {weights.theirs(ours): shape for part in tensors(model) for ours, shape in part.items()}
    for rename in (
        lambda name: f"language_model.{name}",
        lambda name: name.replace("model.", "model.language_model."),
    ):
        held = {rename(name): shape for name, shape in names.items()}
        found = compare(
            model, {**held, "vision_tower.x.weight": (1,), "model.multi_modal_projector.y": (1,)}, weights
        )
        assert wrong(found) == set()
        assert len(told(found)) == 2


def test_the_file_of_gpt2_is_explained():
    found = against(GPT2, GPT2_FILE)
    assert wrong(found) == set()
    assert told(found) == {f"h.{i}.attn.bias": "attention mask: computed, not trained" for i in range(2)}


def test_without_a_family_the_sums_are_compared():
    model = imported_file(GPT2)
    assert compare_sums(model, GPT2_FILE, WeightMap({})).ok
    assert not compare_sums(model, {**GPT2_FILE, "more": (1,)}, WeightMap({})).ok
    assert not compare_sums(model, {**GPT2_FILE, "wte.weight": None}, WeightMap({})).ok


def test_the_file_of_bert_is_explained():
    found = against(BERT, BERT_FILE)
    assert wrong(found) == set()
    other = "head that this architecture's class does not have"
    assert told(found) == {
        "bert.embeddings.position_ids": "position ids: 0, 1, 2, …",
        "bert.pooler.dense.weight": other,
        "bert.pooler.dense.bias": other,
        "cls.predictions.decoder.weight": "tied weight, stored again",
        "cls.seq_relationship.weight": other,
        "cls.seq_relationship.bias": other,
    }


def v3_file():
    """Its own names, an expert each, fp8 scales beside every matrix of a layer, and layer 2, which predicts the token after the next."""
    weights = weight_map(V3)
    held = {}
    for part in tensors(imported_file(V3)):
        for ours, shape in part.items():
            stacked = ".experts." in ours
            for nth in range(shape[0]) if stacked else [None]:
                name = weights.theirs(ours, nth)
                held[name] = shape[1:] if stacked else shape
                if len(held[name]) == 2 and name.startswith("model.layers.") and ".gate." not in name:
                    held[f"{name}_scale_inv"] = (1, 1)
    extra = (
        "embed_tokens.weight",
        "enorm.weight",
        "eh_proj.weight",
        "shared_head.head.weight",
        "mlp.experts.3.up_proj.weight",
    )
    return {**held, **{f"model.layers.2.{name}": (16,) for name in extra}}


def test_the_file_of_deepseek_v3_is_explained():
    held = v3_file()
    assert {
        "model.layers.1.mlp.experts.3.down_proj.weight",
        "model.layers.1.mlp.experts.3.down_proj.weight_scale_inv",
    } <= held.keys()
    found = against(V3, held)
    assert wrong(found) == set()
    reasons = told(found)
    assert {why.split(":")[0] for name, why in reasons.items() if name.startswith("model.layers.2.")} == {
        "multi-token prediction"
    }
    assert {why for name, why in reasons.items() if name.endswith("_scale_inv")} == {
        "scale of a quantized weight"
    }
    assert reasons["model.layers.1.mlp.gate.e_score_correction_bias"] == "buffer: stored, not trained"


def test_a_layer_that_no_config_announces_is_unexpected():
    found = against({**V3, "num_nextn_predict_layers": 0}, v3_file())
    assert {name for status, name in wrong(found) if status == "unexpected"} == {
        name for name in v3_file() if name.startswith("model.layers.2.")
    }


def test_an_expert_that_is_missing_is_told_by_its_number():
    held = v3_file()
    del held["model.layers.1.mlp.experts.2.up_proj.weight"]
    (line,) = [line for line in against(V3, held).lines if line.status == "missing"]
    assert (line.name, line.ours) == (
        "model.layers.1.mlp.experts.2.up_proj.weight",
        "layers.1.ffn.experts.up_proj.weight[2]",
    )
    held["model.layers.1.mlp.experts.4.up_proj.weight"] = (8, 16)
    assert ("shape", "model.layers.1.mlp.experts.4.up_proj.weight") in wrong(against(V3, held))


def test_the_file_of_gpt_oss_has_packed_experts():
    weights, model = weight_map(OSS), imported_file(OSS)
    held = {
        weights.theirs(ours): shape for ours, shape in tensors(model)[0].items() if ".experts." not in ours
    }
    experts = "model.layers.0.mlp.experts."
    held |= {f"{experts}gate_up_proj_bias": (2, 64), f"{experts}down_proj_bias": (2, 64)}
    packed = {
        "gate_up_proj_blocks": (2, 64, 2, 16),
        "gate_up_proj_scales": (2, 64, 2),
        "down_proj_blocks": (2, 64, 1, 16),
    }
    found = compare(model, {**held, **{experts + name: shape for name, shape in packed.items()}}, weights)
    assert wrong(found) == set()
    assert told(found).keys() == {experts + name for name in packed}


def test_the_leftovers_of_t5_and_marian_are_explained():
    t5 = {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "num_layers": 1,
        "num_decoder_layers": 1,
    }
    weights, model = weight_map(t5), imported_file(t5)
    held = {weights.theirs(ours): shape for ours, shape in tensors(model)[0].items()}
    assert "shared.weight" in held
    copies = {f"{half}.embed_tokens.weight": held["shared.weight"] for half in ("encoder", "decoder")}
    cross = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    found = compare(model, {**held, **copies, cross: (32, 8)}, weights)
    assert wrong(found) == set()
    assert told(found).keys() == {*copies, cross}
    marian = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "encoder_layers": 1,
        "decoder_layers": 1,
    }
    with torch.device("meta"):
        own = transformers.MarianMTModel(transformers.MarianConfig(**marian))
    found = against(marian, {name: tuple(tensor.shape) for name, tensor in own.state_dict().items()})
    assert wrong(found) == set()
    assert {name for name, why in told(found).items() if why.startswith("sinusoid")} == {
        "model.encoder.embed_positions.weight",
        "model.decoder.embed_positions.weight",
    }


def test_the_file_of_chatglm_is_explained():
    found = against(CHATGLM, CHATGLM_FILE)
    assert wrong(found) == set()
    assert told(found).keys() == {"transformer.rotary_pos_emb.inv_freq"}
