"""GPT-2 to Whisper: what an importer makes of a config is as big as Hugging Face's class makes it, and computes as much."""

import dataclasses

import pytest
import torch
import transformers
from importing import families, imported, imported_file
from torch.utils.flop_counter import FlopCounterMode

from archcli.errors import ArchError
from archcli.graph import OpClass
from archcli.load.hf.base import Config
from archcli.measure.passes import forward_pass

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

# what is tiny about a tiny config, in each family's own words
GPT2 = {"vocab_size": 61, "n_positions": 40, "n_embd": 24, "n_layer": 3, "n_head": 4}
NEOX = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 52, "max_position_embeddings": 40}
OPT = {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 3, "ffn_dim": 52, "num_attention_heads": 4, "max_position_embeddings": 40}
BLOOM = {"vocab_size": 61, "hidden_size": 30, "n_layer": 3, "n_head": 6}
MPT = {"vocab_size": 61, "d_model": 30, "n_heads": 6, "n_layers": 3, "max_seq_len": 40}
FALCON = {"vocab_size": 61, "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 6}
PHI = {**NEOX, "hidden_size": 48}
RANKS = {"kv_lora_rank": 14, "q_lora_rank": 18, "qk_nope_head_dim": 10, "qk_rope_head_dim": 8, "v_head_dim": 6}
MOE = {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 20}
LATENT = {**NEOX, **RANKS, "num_key_value_heads": NEOX["num_attention_heads"]}  # what the classes of V3 and MiniCPM3 can run
DEEPSEEK = {**LATENT, **MOE, "num_hidden_layers": 5}
GROUPED = {"n_group": 4, "topk_group": 2}
OSS = {**NEOX, "num_key_value_heads": 2, "head_dim": 12, "num_local_experts": 6, "num_experts_per_tok": 2, "sliding_window": 5}
LLAMA4 = {**NEOX, "num_key_value_heads": 2, "head_dim": 12, "num_local_experts": 6, "intermediate_size_mlp": 44, "num_hidden_layers": 9}
BERT = {**NEOX, "type_vocab_size": 3}
T5 = {"vocab_size": 61, "d_model": 24, "d_kv": 10, "d_ff": 52, "num_layers": 3, "num_heads": 4}
HALVES = {"encoder_layers": 2, "encoder_ffn_dim": 52, "encoder_attention_heads": 4, "decoder_layers": 3, "decoder_ffn_dim": 44}
MARIAN = {"vocab_size": 61, "d_model": 24, "decoder_attention_heads": 6, "max_position_embeddings": 40, "pad_token_id": 0, **HALVES}
WHISPER = {**MARIAN, "num_mel_bins": 12, "max_source_positions": 9, "max_target_positions": 17}

VARIANTS = {
    "gpt2": {
        "narrow-ffn": {**GPT2, "n_inner": 50},
        "untied": {**GPT2, "tie_word_embeddings": False},
        "scaled-by-layer": {**GPT2, "scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False},
        "common-words": {"vocab_size": 61, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 9},
    },
    "gptj": {
        "missing-ffn": {**GPT2, "rotary_dim": 4},
        "tied": {**GPT2, "rotary_dim": 6, "n_inner": 50, "tie_word_embeddings": True},
        "relu": {**GPT2, "rotary_dim": 2, "activation_function": "relu"},
    },
    "gpt_neox": {
        "sequential": {**NEOX, "use_parallel_residual": False},
        "no-bias": {**NEOX, "attention_bias": False, "rotary_pct": 1.0},
        "tied": {**NEOX, "tie_word_embeddings": True, "rotary_emb_base": 500.0, "rotary_pct": 0.5},
        "nope": {**NEOX, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.0}},
    },
    "opt": {
        "post-norm-350m": {**OPT, "do_layer_norm_before": False, "word_embed_proj_dim": 10},
        "untied-narrow": {**OPT, "word_embed_proj_dim": 10, "tie_word_embeddings": False},
        "plain-norms": {**OPT, "layer_norm_elementwise_affine": False, "enable_bias": False},
        "no-final-norm": {**OPT, "_remove_final_layer_norm": True, "activation_function": "gelu"},
    },
    "bloom": {
        "old-words": {"vocab_size": 61, "n_embed": 24, "n_layer": 2, "num_attention_heads": 4},
        "untied": {**BLOOM, "tie_word_embeddings": False},
        "n_inner": {**BLOOM, "n_inner": 7},
    },
    "mpt": {
        "clipped": {**MPT, "attn_config": {"clip_qkv": 8.0, "softmax_scale": 0.3}},
        "untied": {**MPT, "tie_word_embeddings": False},
        "no-attn-config": {**MPT, "n_heads": 5},
    },
    "falcon": {
        "7b": {**FALCON, "num_kv_heads": 6},
        "40b": {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 2, "multi_query": False},
        "11b": {**FALCON, "new_decoder_architecture": True, "num_kv_heads": 3, "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 52},
        "rw-1b": {**FALCON, "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False},
        "mha": {**FALCON, "multi_query": False, "tie_word_embeddings": False},
        "new-without-kv-heads": {**FALCON, "new_decoder_architecture": True},
    },
    "phi": {
        "gqa": {**PHI, "num_key_value_heads": 2},
        "qk-norm": {**PHI, "qk_layernorm": True, "partial_rotary_factor": 0.34},
        "tied": {**PHI, "tie_word_embeddings": True, "hidden_act": "quick_gelu"},
    },
    "deepseek_v2": {
        "lite": {**DEEPSEEK, "q_lora_rank": None, "first_k_dense_replace": 1},
        "limited": {**DEEPSEEK, **GROUPED, "topk_method": "group_limited_greedy", "n_shared_experts": 3},
        "biased": {**DEEPSEEK, "attention_bias": True, "mlp_bias": True, "first_k_dense_replace": 2, "tie_word_embeddings": True},
    },
    "deepseek_v3": {
        "no-q-lora": {**DEEPSEEK, **GROUPED, "q_lora_rank": None},
        "biased": {**DEEPSEEK, **GROUPED, "attention_bias": True, "first_k_dense_replace": 0, "n_shared_experts": 2},
        "dense": {**DEEPSEEK, **GROUPED, "first_k_dense_replace": 9, "tie_word_embeddings": True},
    },
    "minicpm3": {
        "null-scales": {**LATENT, "scale_depth": None, "dim_model_base": None},
        "missing-v": {key: value for key, value in LATENT.items() if key != "v_head_dim"},
        "biased": {**LATENT, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False, "q_lora_rank": None},
    },
    "gpt_oss": {
        "stated-layers": {**OSS, "layer_types": ["full_attention", "full_attention", "sliding_attention"]},
        "no-bias": {**OSS, "attention_bias": False, "tie_word_embeddings": True},
        "plain-rope": {**OSS, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "num_key_value_heads": 1},
    },
    "llama4_text": {
        "every-other": {**LLAMA4, "interleave_moe_layer_step": 2, "use_qk_norm": False},
        "listed": {**LLAMA4, "moe_layers": [1, 2, 7], "no_rope_layers": [1, 0, 1, 1, 1, 0, 1, 1, 1]},
        "biased": {**LLAMA4, "attention_bias": True, "tie_word_embeddings": True, "no_rope_layer_interval": 3, "attn_temperature_tuning": False},
        "dense": {**LLAMA4, "moe_layers": [], "num_key_value_heads": 4},
    },
    "bert": {
        "relu": {**BERT, "hidden_act": "relu"},
        "masked": {**BERT, "architectures": ["BertForMaskedLM"]},
        "pretraining": {**BERT, "architectures": ["BertForPreTraining"]},
        "next-sentence": {**BERT, "architectures": ["BertForNextSentencePrediction"]},
        "classifier": {**BERT, "architectures": ["BertForSequenceClassification"], "id2label": {str(i): str(i) for i in range(5)}},
        "tagger": {**BERT, "architectures": ["BertForTokenClassification"], "num_labels": 4},
        "answers": {**BERT, "architectures": ["BertForQuestionAnswering"]},
    },
    "t5": {
        "v1.0": {**T5, "num_decoder_layers": 2},
        "gated-tied": {**T5, "feed_forward_proj": "gated-silu", "relative_attention_num_buckets": 12},
        "encoder": {**T5, "architectures": ["T5EncoderModel"]},
    },
    "marian": {
        "paper": {**MARIAN, "activation_function": "relu", "scale_embedding": True},
        "two-tables": {**MARIAN, "share_encoder_decoder_embeddings": False, "decoder_vocab_size": 47},
        "two-tables-untied": {**MARIAN, "share_encoder_decoder_embeddings": False, "tie_word_embeddings": False},
    },
    "whisper": {
        "uneven": WHISPER,
        "untied": {**WHISPER, "tie_word_embeddings": False},
        "relu": {**WHISPER, "activation_function": "relu", "scale_embedding": True},
    },
}
CASES = pytest.mark.parametrize(
    ("model_type", "config"),
    [pytest.param(kind, config, id=f"{kind}-{name}") for kind, variants in VARIANTS.items() for name, config in variants.items()],
)
REQUIRED = {"deepseek_v2": {"num_experts_per_tok": 6}}  # the class has no default that its router can use


def family(model_type):
    return families()[model_type]


def theirs(model_type, config, device="meta"):
    name = next(iter(config.get("architectures", [])), CLASSES[model_type])
    config = transformers.AutoConfig.for_model(model_type, **config)
    with torch.device(device):
        return getattr(transformers, name)._from_config(config, attn_implementation="eager", experts_implementation="eager").eval()


def total(model):
    """Tied tensors once; Marian's sinusoid is computed, so its two tables are none."""
    computed = model.config.model_type == "marian"
    return sum(p.numel() for name, p in model.named_parameters() if not (computed and "embed_positions" in name))


def our_total(model):
    return sum(row.params for row in forward_pass(model, 1, 1).rows)


@pytest.mark.parametrize("model_type", CLASSES)
def test_an_empty_config_is_the_default_of_the_class(model_type):
    config = REQUIRED.get(model_type, {})
    assert our_total(imported(family(model_type), config)) == total(theirs(model_type, config))


@pytest.mark.parametrize("model_type", CLASSES)
def test_stated_defaults_are_those_of_the_class(model_type):
    cls = type(transformers.AutoConfig.for_model(model_type))
    fields = {field.name: field.default for field in dataclasses.fields(cls)}
    stated = {name: value for name, value in family(model_type).DEFAULTS.items() if name in fields and name != "rope_parameters"}
    assert stated == {name: fields[name] for name in stated}
    assert {name for name in family(model_type).DEFAULTS if name not in fields} <= {"tie_word_embeddings"}  # T5's class overrides it


@CASES
def test_a_variant_has_as_many_parameters(model_type, config):
    assert our_total(imported(family(model_type), config)) == total(theirs(model_type, config))


@CASES
def test_a_variant_computes_as_much(model_type, config):
    model = theirs(model_type, config, "cpu")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**_inputs(model_type, config))
    rows = forward_pass(imported(family(model_type), config), BATCH, LENGTH).rows
    # Llama 4's class sends every token through every expert
    every = {row.path: row.experts.n_experts if row.experts and model_type == "llama4_text" else 1 for row in rows}
    ours = sum(
        part.dense_flops * row.times * every[row.path] for row in rows for part in row.parts if part.op_class is OpClass.CONTRACTION
    )
    assert ours == counter.get_total_flops()


def _inputs(model_type, config):
    ids = torch.zeros((BATCH, LENGTH), dtype=torch.int64)
    if model_type == "whisper":
        return {"input_features": torch.zeros((BATCH, config["num_mel_bins"], 2 * config["max_source_positions"])), "decoder_input_ids": ids}
    if CLASSES[model_type] in ("MarianMTModel", "T5ForConditionalGeneration") and "architectures" not in config:
        return {"input_ids": ids, "decoder_input_ids": ids}
    return {"input_ids": ids} | ({} if model_type in ("bert", "t5") else {"use_cache": False})


@pytest.mark.parametrize("proj", ["relu", "gated-gelu"])
def test_an_untied_t5_has_a_head_of_its_own(proj):
    config = {**T5, "feed_forward_proj": proj, "tie_word_embeddings": False}
    head = T5["vocab_size"] * T5["d_model"]  # the class ties it since transformers 5; the checkpoints of v1.1 hold both
    assert our_total(imported(family("t5"), config)) == total(theirs("t5", config)) + head


def test_an_untied_bert_has_a_head_of_its_own():
    config = {**BERT, "architectures": ["BertForMaskedLM"], "tie_word_embeddings": False}
    dead = BERT["vocab_size"]  # untied, the class keeps a second bias that it never adds
    assert our_total(imported(family("bert"), config)) == total(theirs("bert", config)) - dead


@pytest.mark.parametrize(
    ("model_type", "config", "named"),
    [
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention"),
        ("gpt2", {"activation_function": "mish"}, "mish"),
        ("bloom", {"apply_residual_connection_post_layernorm": True}, "apply_residual_connection_post_layernorm"),
        ("mpt", {"expansion_ratio": 3}, "expansion_ratio"),
        ("mpt", {"attn_config": {"qk_ln": True}}, "qk_ln"),
        ("falcon", {"new_decoder_architecture": True, "parallel_attn": False}, "parallel_attn"),
        ("deepseek_v2", {}, "num_experts_per_tok"),
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
        imported(family(model_type), config)


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
    assert our_total(imported_file({**config, "architectures": [name]})) == total(theirs(kind, {**rest, "architectures": [name]}))


@pytest.mark.parametrize("name", ["BertForGeneration", "MarianForCausalLM", "WhisperForAudioClassification", "BertLMHeadModel"])
def test_a_class_of_other_parts_is_refused(name):
    kind = name.partition("For")[0].removesuffix("LMHeadModel").lower()
    with pytest.raises(ArchError, match=name):
        imported_file({"model_type": kind, "architectures": [name]})


def test_llama_4_is_read_from_its_text_config():
    config = {"model_type": "llama4", "architectures": ["Llama4ForConditionalGeneration"], "text_config": LLAMA4}
    assert our_total(imported_file(config)) == total(theirs("llama4_text", LLAMA4))


def test_kimi_k2_is_read_as_deepseek_v3():
    config = {**DEEPSEEK, **GROUPED, "model_type": "kimi_k2"}
    assert "kimi_k2" in family("kimi_k2").MODEL_TYPES
    assert our_total(imported(family("kimi_k2"), config)) == total(theirs("deepseek_v3", {**DEEPSEEK, **GROUPED}))


def test_multi_token_prediction_is_named_as_not_counted():
    config = Config({**DEEPSEEK, **GROUPED, "num_nextn_predict_layers": 2})
    family("deepseek_v3").mapping(config)
    assert config.notes == ["2 multi-token-prediction layers (num_nextn_predict_layers) not counted: in the file, not in the class"]
