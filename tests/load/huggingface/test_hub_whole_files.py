"""Whole files of the hub, family by family: every name they hold is a weight of ours or explained."""

import torch
import transformers

from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import WeightMap
from archcli.measure.weights.stored_bytes import tensors
from archcli.wings.running.weights.checkpoint import compare, compare_sums
from hub.compared import against, told, wrong
from hub.files import BERT, BERT_FILE, CHATGLM, CHATGLM_FILE, GPT2, GPT2_FILE, OSS, V3
from importing import imported_file


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
    """Its own names, an expert each, fp8 scales beside every matrix of a layer.

    Layer 2 predicts the token after the next.
    """
    weights = weight_map(V3)
    held = {}
    for part in tensors(imported_file(V3)):
        for ours, shape in part.items():
            stacked = ".experts." in ours
            for nth in range(shape[0]) if stacked else [None]:
                name = weights.checkpoint_name(ours, nth)
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
        weights.checkpoint_name(ours): shape
        for ours, shape in tensors(model)[0].items()
        if ".experts." not in ours
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
    held = {weights.checkpoint_name(ours): shape for ours, shape in tensors(model)[0].items()}
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
