"""GPT-2 to Whisper: imported random configs against the size and FLOPs of Hugging Face's classes."""

from copy import deepcopy

import pytest
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from archcli.errors import ArchError
from archcli.graph import OpClass
from archcli.load.huggingface.config import Config
from archcli.measure.passes import forward_pass
from import_variants import (
    BERT,
    DEEPSEEK,
    FALCON,
    GPT2,
    GROUPED,
    LLAMA4,
    MARIAN,
    NEOX,
    OPT,
    T5,
    VARIANTS,
    WHISPER,
)
from importing import imported, imported_file, mapped
from table import every_row, sampled_rows

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

BATCH, LENGTH = 2, 7

# their class, by model_type
CLASSES = {
    "bert": "BertModel",
    "bloom": "BloomForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "falcon": "FalconForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "gptj": "GPTJForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "marian": "MarianMTModel",
    "minicpm3": "MiniCPM3ForCausalLM",
    "mpt": "MptForCausalLM",
    "opt": "OPTForCausalLM",
    "phi": "PhiForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "whisper": "WhisperForConditionalGeneration",
}

CASES = pytest.mark.parametrize(
    ("model_type", "config"),
    [
        pytest.param(kind, config, id=f"{kind}-{name}")
        for kind, variants in VARIANTS.items()
        for name, config in variants.items()
    ],
)
REQUIRED = {"deepseek_v2": {"num_experts_per_tok": 6}}  # the class has no default that its router can use


def theirs(model_type, config, device="meta"):
    name = next(iter(config.get("architectures", [])), CLASSES[model_type])
    config = transformers.AutoConfig.for_model(model_type, **deepcopy(config))
    with torch.device(device):
        return (
            getattr(transformers, name)
            ._from_config(config, attn_implementation="eager", experts_implementation="eager")
            .eval()
        )


def total(model):
    """Tied tensors once; Marian's sinusoid is computed."""
    left_out = ("embed_positions",) if model.config.model_type == "marian" else ()
    return sum(
        p.numel() for name, p in model.named_parameters() if not any(part in name for part in left_out)
    )


def our_total(model):
    return sum(row.params for row in forward_pass(model, 1, 1).rows)


@sampled_rows("model_type", CLASSES, 4)
def test_an_empty_config_is_the_default_of_the_class(model_type):
    config = REQUIRED.get(model_type, {})
    assert our_total(imported(model_type, config)) == total(theirs(model_type, config))


@pytest.mark.sample(5, whole=True)
@CASES
def test_a_variant_has_as_many_parameters(model_type, config):
    assert our_total(imported(model_type, config)) == total(theirs(model_type, config))


@pytest.mark.sample(3, whole=True)
@CASES
def test_a_variant_computes_as_much(model_type, config):
    model = theirs(model_type, config, "cpu")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**_inputs(model_type, config))
    rows = forward_pass(imported(model_type, config), BATCH, LENGTH).rows
    # Llama 4's class sends every token through every expert
    every = {
        row.path: row.experts.n_experts if row.experts and model_type == "llama4_text" else 1 for row in rows
    }
    ours = sum(
        part.unmasked_flops * row.times * every[row.path]
        for row in rows
        for part in row.parts
        if part.op_class is OpClass.CONTRACTION
    )
    assert ours == counter.get_total_flops()


def _inputs(model_type, config):
    ids = torch.zeros((BATCH, LENGTH), dtype=torch.int64)
    if model_type == "whisper":
        return {
            "input_features": torch.zeros(
                (BATCH, config["num_mel_bins"], 2 * config["max_source_positions"])
            ),
            "decoder_input_ids": ids,
        }
    if (
        CLASSES[model_type] in ("MarianMTModel", "T5ForConditionalGeneration")
        and "architectures" not in config
    ):
        return {"input_ids": ids, "decoder_input_ids": ids}
    return {"input_ids": ids} | ({} if model_type in ("bert", "t5") else {"use_cache": False})


@pytest.mark.parametrize("proj", ["relu", "gated-gelu"])
def test_an_untied_t5_has_a_head_of_its_own(proj):
    config = {**T5, "feed_forward_proj": proj, "tie_word_embeddings": False}
    head = (
        T5["vocab_size"] * T5["d_model"]
    )  # the class ties it since transformers 5; the checkpoints of v1.1 hold both
    assert our_total(imported("t5", config)) == total(theirs("t5", config)) + head


def test_an_untied_bert_has_a_head_of_its_own():
    config = {**BERT, "architectures": ["BertForMaskedLM"], "tie_word_embeddings": False}
    spec = imported("bert", config)
    assert spec.unread == {"unread_bias": BERT["vocab_size"]}  # untied, the class keeps a second bias
    assert our_total(spec) == total(theirs("bert", config))


@every_row(
    ("model_type", "config", "named"),
    [
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2", {"activation_function": "mish"}, "mish"),
        (
            "bloom",
            {"apply_residual_connection_post_layernorm": True},
            "apply_residual_connection_post_layernorm",
        ),
        ("mpt", {"expansion_ratio": 3}, "expansion_ratio"),
        ("mpt", {"attn_config": {"qk_ln": True}}, "qk_ln"),
        ("falcon", {"new_decoder_architecture": True, "parallel_attn": False}, "parallel_attn"),
        ("deepseek_v2", {"topk_method": "group_limited_greedy"}, "n_group"),
        ("deepseek_v2", {"num_experts_per_tok": 6, "topk_method": "noaux_tc"}, "topk_method"),
        ("deepseek_v3", {"moe_layer_freq": 2}, "moe_layer_freq"),
        ("gpt_oss", {"layer_types": ["full_attention"]}, "layer_types"),
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("t5", {"feed_forward_proj": "gated-swoosh"}, "feed_forward_proj"),
        ("marian", {"normalize_before": True}, "normalize_before"),
        ("whisper", {"d_model": "384"}, "d_model"),
        ("opt", {"hidden_size": -1}, "hidden_size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_expressed_is_refused_by_name(model_type, config, named):
    with pytest.raises(ArchError, match=named):
        imported(model_type, config)


@pytest.mark.sample(5, whole=True)
@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("GPT2Model", {**GPT2, "model_type": "gpt2"}),
        ("GPTNeoXModel", {**NEOX, "model_type": "gpt_neox"}),
        ("OPTModel", {**OPT, "model_type": "opt", "word_embed_proj_dim": 10}),
        ("FalconModel", {**FALCON, "model_type": "falcon", "tie_word_embeddings": False}),
        ("DeepseekV3Model", {**DEEPSEEK, **GROUPED, "model_type": "deepseek_v3"}),
        ("T5Model", {**T5, "model_type": "t5"}),
        ("T5EncoderModel", {**T5, "model_type": "t5"}),
        ("T5ForTokenClassification", {**T5, "model_type": "t5", "num_labels": 5}),
        ("MarianModel", {**MARIAN, "model_type": "marian"}),
        ("WhisperModel", {**WHISPER, "model_type": "whisper"}),
        ("BertModel", {**BERT, "model_type": "bert"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_base_model_has_no_head(name, config):
    kind = config["model_type"]
    rest = {key: value for key, value in config.items() if key != "model_type"}
    assert our_total(imported_file({**config, "architectures": [name]})) == total(
        theirs(kind, {**rest, "architectures": [name]})
    )


@pytest.mark.parametrize("name", ["BertForGeneration", "ViTForMaskedImageModeling"])
def test_a_class_of_other_parts_is_refused(name):
    kind = name.partition("For")[0].lower()
    with pytest.raises(ArchError, match=name):
        imported_file({"model_type": kind, "architectures": [name]})


def test_llama_4_is_read_from_its_text_config():
    config = {
        "model_type": "llama4",
        "architectures": ["Llama4ForConditionalGeneration"],
        "text_config": LLAMA4,
    }
    assert our_total(imported_file(config)) == total(theirs("llama4_text", LLAMA4))


def test_kimi_k2_is_read_as_deepseek_v3():
    config = {**DEEPSEEK, **GROUPED, "model_type": "kimi_k2"}
    assert our_total(imported("kimi_k2", config)) == total(theirs("deepseek_v3", {**DEEPSEEK, **GROUPED}))


@pytest.mark.parametrize(("first", "layer"), [(1, set()), (9, {"layer"})])
def test_multi_token_prediction_is_read_beside_the_layers(first, layer):
    """Its layer has experts, as the layers after the first dense ones.

    It is said in full only where there are none of those.
    """
    config = {
        **DEEPSEEK,
        **GROUPED,
        "first_k_dense_replace": first,
        "num_nextn_predict_layers": 2,
        "architectures": ["DeepseekV3ForCausalLM"],
    }
    found = mapped(Config({"model_type": "deepseek_v3", **config}))
    assert found["mtp"].keys() == {"depth"} | layer
    model = imported("deepseek_v3", config)
    assert (model.mtp.depth, (model.mtp.layer or model.groups[-1].blocks[-1]).ffn.kind) == (2, "moe")
    assert our_total(model) == total(
        theirs("deepseek_v3", {**DEEPSEEK, **GROUPED, "first_k_dense_replace": first})
    )


def test_multi_token_prediction_goes_with_the_head():
    config = {
        **DEEPSEEK,
        **GROUPED,
        "model_type": "deepseek_v3",
        "num_nextn_predict_layers": 1,
        "architectures": ["DeepseekV3Model"],
    }
    assert imported_file(config).mtp is None
