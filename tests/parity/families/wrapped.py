"""Language models of wrappers: a tiny text part each, beside a tower that takes no part."""

from parity.families.dense import ALPHA
from parity.families.latent import QUIET, YARN
from parity.family import EPS, HEAD_DIM, SIZES, VOCAB, WINDOW, Family, rope

BASE = {**SIZES, "pad_token_id": 0, "rms_norm_eps": EPS, "rope_parameters": rope()}
WIDE = {**BASE, "head_dim": HEAD_DIM}
TOWER = {
    "depth": 1,
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_heads": 2,
    "num_attention_heads": 2,
    "out_hidden_size": 32,
    "patch_size": 4,
    "image_size": 8,
}
SOUND = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_blocks": 1,
    "num_attention_heads": 2,
    "ext_pw_out_channel": 16,
    "depthwise_separable_out_channel": 16,
    "nemo_conv_channels": 16,
}
ADAPTER = {**TOWER, "vision_feature_layer": [0, 0]}
KOSMOS = {
    "vocab_size": VOCAB,
    "embed_dim": 32,
    "layers": 2,
    "ffn_dim": 40,
    "attention_heads": 4,
    "max_position_embeddings": 64,
    "layer_norm_eps": EPS,
}
BLIP_CLASS = "BlipTextLMHeadModel"
BLIP = {
    **SIZES,
    "model_type": "blip_text_model",
    "architectures": [BLIP_CLASS],
    "encoder_hidden_size": 16,
    "layer_norm_eps": EPS,
    "tie_word_embeddings": True,
}
PASSED_BY = {"groups.0: pattern reversed": "layers differ in adapters alone, which text passes by"}
EVOLLA_CLASS = "EvollaForProteinText2Text"
EVOLLA = {
    **BASE,
    "model_type": "evolla",
    "architectures": [EVOLLA_CLASS],
    "protein_encoder_config": {**TOWER, "vocab_size": 9, "pad_token_id": 1},
    "num_hidden_layers": 5,
    "aligner_num_add_layers": 2,
    "aligner_ffn_mult": 3,
    "resampler_depth": 1,
    "resampler_dim_head": 6,
    "resampler_heads": 2,
    "resampler_num_latents": 3,
}
TOKENIZER = {
    "base_channels": 32,
    "hidden_size": 16,
    "codebook_size": 4,
    "channel_multiplier": [1],
    "num_res_blocks": 1,
    "attn_resolutions": [],
}


def axes(head_dim, **more):
    """RoPE of three axes: sections of a head's rotated pairs."""
    pairs = head_dim // 2
    return rope(mrope_section=[pairs - 2 * (pairs // 3), pairs // 3, pairs // 3], **more)


def wrapped(kind, text, cls="AutoModelForImageTextToText", *, tower="vision_config", **outer):
    """The wrapper of this model_type around a text part."""
    towers = {tower: TOWER} if tower else {}
    return {"model_type": kind, "text_config": text, "tie_word_embeddings": False, **towers, **outer}


def family(kind, text, *, tower="vision_config", in_memory=False, **outer):
    config = wrapped(kind, text, tower=tower, **outer)
    return Family(config, cls="AutoModelForImageTextToText", in_memory=in_memory)


FAMILIES = {
    "glm4v": family("glm4v", {**BASE, "rope_parameters": axes(8)}),
    "glm_ocr": family("glm_ocr", {**WIDE, "rope_parameters": axes(HEAD_DIM)}),
    "hunyuan_vl": family(
        "hunyuan_vl",
        {**WIDE, "rope_parameters": {**ALPHA, "mrope_section": [1, 1, 1, HEAD_DIM // 2 - 3]}},
    ),
    "paddleocr_vl": family("paddleocr_vl", {**WIDE, "use_bias": True, "rope_parameters": axes(HEAD_DIM)}),
    "cosmos3_edge": family("cosmos3_edge", {**WIDE, "mlp_bias": True, "rope_parameters": axes(HEAD_DIM)}),
    "emu3": family("emu3", BASE, tower=None, vq_config=TOKENIZER, vocabulary_map={"<image>": 1}),
    "phi4_multimodal": Family(
        {
            **BASE,
            "model_type": "phi4_multimodal",
            "vision_config": {**TOWER, "crop_size": 8, "feature_layer": -1},
            "audio_config": SOUND,
        }
    ),
    "qwen3_vl_moe": family(
        "qwen3_vl_moe",
        {
            **WIDE,
            "num_experts": 4,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 20,
            "rope_parameters": axes(HEAD_DIM),
        },
    ),
    "glm4v_moe": family(
        "glm4v_moe",
        {
            **BASE,
            "num_hidden_layers": 3,
            "rope_parameters": axes(4, partial_rotary_factor=0.5),
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "n_group": 4,
            "topk_group": 2,
            "moe_intermediate_size": 20,
            "routed_scaling_factor": 1.5,
        },
    ),
    "qwen2_5_vl": family("qwen2_5_vl", {**BASE, "rope_parameters": axes(8)}),
    "cohere2_vision": family(
        "cohere2_vision",
        {
            **SIZES,
            "model_type": "cohere2",
            "layer_norm_eps": EPS,
            "rope_parameters": rope(),
            "sliding_window": WINDOW,
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "granite_docling": family(
        "granite_docling", {**BASE, "attention_multiplier": 0.2, "attention_bias": True, "mlp_bias": True}
    ),
    "chameleon": Family(
        {**BASE, "model_type": "chameleon", "vq_config": TOKENIZER, "vocabulary_map": {"<image>": 1}},
        cls="AutoModelForImageTextToText",
    ),
    "chameleon_swin": Family(
        {
            **BASE,
            "model_type": "chameleon",
            "swin_norm": True,
            "attention_bias": True,
            "mlp_bias": True,
            "vq_config": TOKENIZER,
            "vocabulary_map": {"<image>": 1},
        },
        cls="AutoModelForImageTextToText",
    ),
    # as many vectors as words: save_pretrained cuts the table of both in halves
    "molmo2": family(
        "molmo2",
        {**WIDE, "attention_bias": True, "additional_vocab_size": VOCAB},
        adapter_config=ADAPTER,
        vision_config={**TOWER, "image_size": [8, 8]},
    ),
    "molmo2_olmo": family(
        "molmo2",
        {
            **BASE,
            "head_dim": 8,
            "additional_vocab_size": VOCAB,
            "qk_norm_type": "olmo",
            "norm_after": True,
            "rope_parameters": rope(rope_type="linear", factor=3.0),
            "rope_scaling_layers": [1],
        },
        adapter_config=ADAPTER,
        vision_config={**TOWER, "image_size": [8, 8]},
    ),
    "mllama": family(
        "mllama",
        {**BASE, "num_hidden_layers": 4, "cross_attention_layers": [0, 2]},
        vision_config={
            **TOWER,
            "num_global_layers": 1,
            "attention_heads": 2,
            "vision_output_dim": 32,
            "intermediate_layers_indices": [0],
        },
    ),
    "ernie4_5_vl_moe": family(
        "ernie4_5_vl_moe",
        {
            **BASE,
            "num_hidden_layers": 3,
            "use_bias": True,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_num_shared_experts": 1,
            "moe_intermediate_size": [20, 12],
            "rope_parameters": rope(mrope_section=[1, 1, 2]),
        },
        in_memory=True,
    ),
    "blip": Family(BLIP, cls=BLIP_CLASS),
    "blip-untied": Family({**BLIP, "encoder_hidden_size": 14, "tie_word_embeddings": False}, cls=BLIP_CLASS),
    "evolla": Family(EVOLLA, cls=EVOLLA_CLASS, inert=PASSED_BY),
    "evolla-biased": Family(
        {**EVOLLA, "attention_bias": True, "mlp_bias": True, "aligner_enable_bias": False},
        cls=EVOLLA_CLASS,
        inert=PASSED_BY,
    ),
    "kosmos2_5": Family(
        wrapped("kosmos-2.5", KOSMOS, vision_config={**TOWER, "head_dim": 8}, tie_word_embeddings=True),
        cls="AutoModelForImageTextToText",
        avoids=1,
    ),
    "fuyu": family(
        "fuyu",
        {
            **SIZES,
            "model_type": "persimmon",
            "layer_norm_eps": EPS,
            "rope_parameters": rope(partial_rotary_factor=0.5),
        },
        tower=None,
    ),
    "mistral4": Family(
        {
            **BASE,
            "model_type": "mistral4",
            "num_key_value_heads": 4,
            "num_hidden_layers": 3,
            "first_k_dense_replace": 1,
            "q_lora_rank": 20,
            "kv_lora_rank": 16,
            "qk_nope_head_dim": 6,
            "qk_rope_head_dim": 8,
            "v_head_dim": 10,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "n_group": 4,
            "topk_group": 2,
            "moe_intermediate_size": 20,
            "routed_scaling_factor": 1.5,
            "rope_parameters": rope(
                rope_type="yarn",
                original_max_position_embeddings=16,
                **YARN,
                llama_4_scaling_beta=0.3,
            ),
        },
        cls="Mistral4ForCausalLM",
        quiet=QUIET,
    ),
    "muse_glimmer": family(
        "muse_glimmer",
        {
            **WIDE,
            "num_hidden_layers": 4,
            "post_norm_eps": 0.05,
            "sliding_window": WINDOW,
            "final_logit_softcapping": 2.0,
            "output_multiplier": 0.7,
            "qk_scale_factor": 1.7,
        },
        out_hidden_size=32,
        projector_hidden_size=16,
    ),
    "muse_spark": family(
        "muse_spark",
        {
            **WIDE,
            "num_hidden_layers": 4,
            "post_norm_eps": 0.05,
            "sliding_window": WINDOW,
            "final_logit_softcapping": 2.0,
            "output_multiplier": 0.7,
            "qk_scale_factor": 1.7,
            "routed_scaling_factor": 1.3,
            "residual_gate_temperature": 0.6,
            "moe_hidden_size": 24,
            "moe_intermediate_size": 20,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        },
        out_hidden_size=32,
        projector_hidden_size=16,
        audio_config={
            "patch_sizes": [4, 4],
            "hidden_sizes": [8, 16],
            "depths": [1, 1],
            "num_hidden_layers": 2,
            "out_hidden_size": 32,
        },
    ),
    "step3p7": family(
        "step3p7",
        {
            **WIDE,
            "pad_token_id": 1,
            "num_hidden_layers": 3,
            "n_routed_experts": 8,
            "num_experts_per_tok": 3,
            "moe_intermediate_size": 20,
            "mlp_layer_types": ["dense", "sparse", "sparse"],
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            "num_sliding_attention_heads": 6,
            "sliding_window": WINDOW,
            "share_expert_dim": 14,
            "moe_router_scaling_factor": 1.7,
            "swiglu_limits": [0.0, 0.4, 0.0],
            "swiglu_limits_shared": [0.5, 0.0, 0.3],
            "rope_parameters": {
                "full_attention": rope(partial_rotary_factor=0.5),
                "sliding_attention": rope(50.0),
            },
        },
    ),
}
