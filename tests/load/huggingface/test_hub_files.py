"""Names as files of the hub hold them: what each stores besides weights is explained, and nothing else is.

No tensor has values here.
"""

import pytest

from archcli.load.huggingface.importer import weight_map
from archcli.measure.weights.stored_bytes import tensors
from archcli.wings.running.weights.checkpoint import compare
from drawing import TINY
from hub.compared import against, told, wrong
from importing import imported_file
from table import every_row

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


@every_row("name", EXTRAS)
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


@every_row("name", UNEXPLAINED)
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


@pytest.mark.parametrize(
    ("weight", "beside"),
    [
        ((F, D // 8), {"scales": (F, D // 64), "biases": (F, D // 64)}),
        ((F, D // 2), {"weight_scale": (F, D // 16), "weight_scale_2": (), "input_scale": ()}),
    ],
    ids=["mlx", "nvfp4"],
)
def test_a_weight_whose_module_holds_scales_keeps_its_name_too(weight, beside):
    module = "model.layers.0.mlp.up_proj"
    packed = {f"{module}.weight": weight, **{f"{module}.{name}": shape for name, shape in beside.items()}}
    found = against(LLAMA, {**HEADED, **packed})
    assert wrong(found) == set()
    assert told(found).keys() == packed.keys()


def test_a_multimodal_file_holds_the_language_model_above_or_below():
    config = {"model_type": "gemma3", "text_config": {**TINY, "num_hidden_layers": 1}, "vision_config": {}}
    model = imported_file(config)
    weights = weight_map(config)
    names = {weights.checkpoint_name(ours): shape for part in tensors(model) for ours, shape in part.items()}
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
