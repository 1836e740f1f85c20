"""Wrappers of transformers on the meta device: a tiny language model beside towers of one layer."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

NAMES = {
    **modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    **modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    "audioflamingo3": "AudioFlamingo3ForConditionalGeneration",
    "modernvbert": "ModernVBertForMaskedLM",
    "ultravbert": "UltraVBertForMaskedLM",
    "musicflamingo": "MusicFlamingoForConditionalGeneration",
    "vibevoice": "VibeVoiceForConditionalGeneration",
}
SIGLIP = {"vision_config": {"model_type": "siglip_vision_model", "model_args": {"embed_dim": 8}}}
VOCABULARY = {"<image>": 1, "IMGIMGA": 2, "<|extra_200|>": 3, "<|image token|>": 4}
CODES = {"image_token_offset": 16, "audio_token_offset": 32, "vision_config": {"codebook_size": 16}}
OTHER_PARTS: dict[str, Any] = {
    "apertus1p5": {**CODES, "audio_config": {"model_type": "wavtokenizer_encoder", "codebook_size": 32}},
    "muse_spark": {"audio_config": {"out_hidden_size": 32}},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 12}},
    "dots3_note": {f"{part}_config": {"adapter_out_dim": 32} for part in ("vision", "audio")},
    "emu3": {"vocabulary_map": VOCABULARY},
    "granite_docling": {"vision_config": {"out_hidden_size": 32}},
    "fast_vlm": SIGLIP,
    "perception_lm": SIGLIP,
    "inkling_mm_model": {"vision_config": {"patch_size": 4, "num_hidden_layers": 6}},
    "fun_asr_nano": {"adaptor_config": {"hidden_size": 32, "intermediate_size": 8}},
}
"""Towers in place of those that need timm or scipy, and parts that must fit the tiny width."""

PLANNED = {"inkling_mm_model"}
"""Those whose tower is planned in tensors, which must hold their values, for all of its layers."""

DEPTHS = ("num_hidden_layers", "depth", "num_layers", "encoder_layers", "n_layers")
TINY = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "pad_token_id": 0,
}
OPT = {**TINY, "ffn_dim": 48, "word_embed_proj_dim": 32}
POOLS = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 8,
    "indexer_compress_ratio": 4,
}
"""The index of Qwen4-Exp, which its class has no default for."""
NGRAMS = {"ple_layer_ids": [1], "eos_token_id": 2, "ngram_vocab_size_base": 50, "split_ngram_parts": 4}
REQUIRED = {
    "qwen4_exp_text": {**POOLS, **NGRAMS, "layer_types": ["linear_attention", "indexed_attention"]},
    "inkling_text": {"n_routed_experts": 8, "moe_intermediate_size": 24},
    "dots3_note_text": {"num_key_value_heads": 4},
    "glm5_next_text": {"num_key_value_heads": 4},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "hunyuan_vl_text": {
        "head_dim": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 1, 1]},
    },
    "cohere_compass_text": {"rope_parameters": {"full_attention": None}},
    "ernie4_5_vl_moe_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
    },
}
"""What a text part must state, whatever its sizes."""


def tiny_text(kind: str) -> dict[str, Any]:
    """A tiny text part of this model_type."""
    return {**(OPT if kind == "opt" else TINY), **REQUIRED.get(kind, {}), "model_type": kind}


def class_of(kind: str) -> Any:
    """Their class with a language model's head."""
    return getattr(transformers, NAMES[kind])


def their_wrapper(config: dict[str, Any]) -> Any:
    """Their model of a config.json."""
    kind = config["model_type"]
    stated = {key: value for key, value in config.items() if key != "model_type"}
    whole = transformers.CONFIG_MAPPING[kind](**OTHER_PARTS.get(kind, {}), **stated)
    text = whole.get_text_config()
    for name in () if kind in PLANNED else whole.sub_configs:
        part = getattr(whole, name)
        for depth in DEPTHS if part is not text and part is not None else ():
            if isinstance(getattr(part, depth, None), int):
                setattr(part, depth, 1)
    with torch.device("cpu" if kind in PLANNED else "meta"):
        return class_of(kind)._from_config(whole)


def language_model(model: Any) -> dict[str, torch.Tensor]:
    """The trainable parameters of the text part and of the head, tied ones once."""
    heads = [model.get_output_embeddings(), getattr(model, "projection_head", None)]
    parts = [model.get_decoder(), *(head for head in heads if head is not None)]
    inner = {id(p) for part in parts for p in part.parameters()}
    return {name: p for name, p in model.named_parameters() if id(p) in inner and p.requires_grad}
