"""Multimodal models: a tiny config each, whose sizes differ, and the size of what it reads."""

from __future__ import annotations

from typing import Any, NamedTuple

TOKEN = 90
"""The id in whose place vectors of images or sounds stand."""
TEXT = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
    "max_position_embeddings": 512,
    "rms_norm_eps": 0.01,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
HEADS = {**TEXT, "head_dim": 8}
VISION = {
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "image_size": 24,
    "patch_size": 8,
    "num_channels": 3,
    "layer_norm_eps": 0.01,
}
CLIP = {**VISION, "model_type": "clip_vision_model", "hidden_act": "quick_gelu", "projection_dim": 20}
SIGLIP = {**VISION, "model_type": "siglip_vision_model", "vision_use_head": False}
PIXTRAL = {key: value for key, value in VISION.items() if key != "layer_norm_eps"}
PIXTRAL |= {"model_type": "pixtral", "head_dim": 8, "image_size": 64}
INDEX, ID = {"image_token_index": TOKEN}, {"image_token_id": TOKEN}
PINS = {"image_grid_pinpoints": [[24, 48], [48, 24], [48, 48]]}
BLOCKS = {
    "depth": 4,
    "hidden_size": 24,
    "out_hidden_size": 32,
    "intermediate_size": 36,
    "num_heads": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "in_channels": 3,
}
QWEN2 = {**BLOCKS, "embed_dim": 24, "hidden_size": 32, "mlp_ratio": 2}
QWEN2 = {key: value for key, value in QWEN2.items() if key not in ("intermediate_size", "out_hidden_size")}
QWEN3 = {**BLOCKS, "num_position_embeddings": 16}
MARKS = {**ID, "video_token_id": 91, "vision_start_token_id": 92, "vision_end_token_id": 93}
HEARD = {
    "num_mel_bins": 10,
    "encoder_layers": 2,
    "encoder_attention_heads": 3,
    "encoder_ffn_dim": 36,
    "d_model": 24,
    "max_source_positions": 12,
}
STREAMED = {
    "num_mel_bins": 10,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "hidden_size": 24,
    "head_dim": 10,
    "sliding_window": 5,
    "rms_norm_eps": 0.02,
}
JOINED = {
    "num_mel_bins": 10,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 96,
    "hidden_size": 24,
    "max_source_positions": 12,
}


def turned(*sections: int, **more: Any) -> dict[str, Any]:
    """Rotary positions with these pairs for time, rows and columns."""
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [*sections], **more}
    return {"rope_parameters": rope}


IN_TURN = turned(2, 1, 1, mrope_interleaved=True)
HYBRID = {
    "head_dim": 16,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
SLIDING = {"sliding_window": 6, "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]}


class Whole(NamedTuple):
    """A config, the class that is made of it, and the sizes of the images or sounds of a prompt.

    spread: of the noise on its weights. A delta rule amplifies it: at 0.3 the class in fp32 is 0.9e-5 from
    itself in fp64. So does the encoder of 3,000 frames of Voxtral Realtime: 2.4e-5 at 0.3, 1.7e-6 at 0.2.
    """

    cls: str
    config: dict[str, Any]
    sizes: tuple[tuple[int, ...], ...]
    kind: str = "image"
    spread: float = 0.3

    @property
    def saved(self) -> dict[str, Any]:
        """The config as a file has it."""
        return {"architectures": [self.cls], **self.config}


def _named(kind: str, **more: Any) -> dict[str, Any]:
    return {"model_type": kind, **more}


LLAMA, QWEN = _named("llama", **TEXT), _named("qwen2", **TEXT)
LLAVA = {"model_type": "llava", "text_config": LLAMA, "vision_config": CLIP, **INDEX}
NEXT = {**LLAVA, "model_type": "llava_next", **PINS}
LLAVA_CLASS, NEXT_CLASS = "LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration"
MISTRAL = _named("mistral", **HEADS)
TILES = {**VISION, "image_size": 32}
MLLAMA_CLASS = "MllamaForConditionalGeneration"
TEXT_OF_MLLAMA = {**TEXT, "num_hidden_layers": 5, "cross_attention_layers": [1, 3]}
TILED = {
    **{key: VISION[key] for key in ("hidden_size", "intermediate_size", "image_size", "patch_size")},
    "num_hidden_layers": 4,
    "num_global_layers": 2,
    "attention_heads": 3,
    "intermediate_layers_indices": [0, 2],
    "vision_output_dim": 72,
    "norm_eps": 0.01,
}
MLLAMA = {
    "model_type": "mllama",
    "text_config": _named("mllama_text_model", **TEXT_OF_MLLAMA),
    "vision_config": _named("mllama_vision_model", **TILED),
    **INDEX,
}
WHOLES = {
    "llava": Whole(LLAVA_CLASS, LLAVA, ((24, 24),)),
    "llava-two-images": Whole(LLAVA_CLASS, LLAVA, ((24, 24), (24, 24))),
    "llava-first-layer": Whole(LLAVA_CLASS, {**LLAVA, "vision_feature_layer": 1}, ((24, 24),)),
    "llava-pixtral": Whole(
        LLAVA_CLASS,
        {
            **LLAVA,
            "text_config": MISTRAL,
            "vision_config": PIXTRAL,
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        ((32, 48),),
    ),
    "llava-next": Whole(NEXT_CLASS, NEXT, ((40, 60),)),
    "llava-next-tall": Whole(NEXT_CLASS, NEXT, ((47, 20),)),
    "llava-next-siglip": Whole(
        NEXT_CLASS,
        {
            **NEXT,
            "vision_config": SIGLIP,
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        ((20, 60),),
    ),
    "llava-onevision": Whole(
        "LlavaOnevisionForConditionalGeneration",
        {
            **NEXT,
            "model_type": "llava_onevision",
            "text_config": QWEN,
            "vision_config": SIGLIP,
            "vision_aspect_ratio": "anyres_max_2",
            "video_token_index": 91,
        },
        ((50, 60),),
    ),
    "mllama": Whole(MLLAMA_CLASS, MLLAMA, ((24, 24),)),
    "mllama-two-images": Whole(MLLAMA_CLASS, MLLAMA, ((24, 24), (30, 90))),
    "mistral3": Whole(
        "Mistral3ForConditionalGeneration",
        {
            "model_type": "mistral3",
            "text_config": MISTRAL,
            "vision_config": PIXTRAL,
            "spatial_merge_size": 2,
            **INDEX,
        },
        ((32, 48),),
    ),
    "gemma3": Whole(
        "Gemma3ForConditionalGeneration",
        {
            "model_type": "gemma3",
            "text_config": _named("gemma3_text", **HEADS, **SLIDING),
            "vision_config": {**SIGLIP, "image_size": 48},
            "mm_tokens_per_image": 9,
            **INDEX,
        },
        ((48, 48), (48, 48)),
    ),
    "paligemma": Whole(
        "PaliGemmaForConditionalGeneration",
        {
            "model_type": "paligemma",
            "text_config": _named("gemma", **HEADS),
            "vision_config": {**SIGLIP, "projection_dim": 32},
            "projection_dim": 32,
            "hidden_size": 32,
            **INDEX,
        },
        ((24, 24),),
    ),
    "fuyu": Whole(
        "FuyuForCausalLM",
        {
            "model_type": "fuyu",
            "text_config": _named("persimmon", **TEXT),
            "image_size": 24,
            "patch_size": 8,
            "num_channels": 3,
            **ID,
        },
        ((24, 32), (24, 32)),
    ),
    "internvl": Whole(
        "InternVLForConditionalGeneration",
        {
            "model_type": "internvl",
            "text_config": QWEN,
            "vision_config": {
                **VISION,
                "model_type": "internvl_vision",
                "image_size": [32, 32],
                "patch_size": [8, 8],
                "attention_bias": True,
            },
            "downsample_ratio": 0.5,
            **ID,
        },
        ((32, 32),),
    ),
    **{
        kind: Whole(
            cls,
            {
                "model_type": kind,
                "text_config": LLAMA,
                "vision_config": _named(f"{kind}_vision", **TILES),
                "scale_factor": 2,
                "tie_word_embeddings": False,
                **ID,
            },
            ((96, 60),),
        )
        for kind, cls in (
            ("smolvlm", "SmolVLMForConditionalGeneration"),
            ("idefics3", "Idefics3ForConditionalGeneration"),
        )
    },
    "qwen2-vl": Whole(
        "Qwen2VLForConditionalGeneration",
        {
            "model_type": "qwen2_vl",
            "text_config": _named("qwen2_vl_text", **TEXT, **turned(1, 1, 2)),
            "vision_config": QWEN2,
            **MARKS,
        },
        ((24, 40), (16, 16)),
    ),
    "qwen2.5-vl": Whole(
        "Qwen2_5_VLForConditionalGeneration",
        {
            "model_type": "qwen2_5_vl",
            "text_config": _named("qwen2_5_vl_text", **TEXT, **turned(1, 2, 1)),
            "vision_config": {**BLOCKS, "window_size": 16, "fullatt_block_indexes": [1, 3]},
            **MARKS,
        },
        ((40, 56),),
    ),
    "qwen3-vl": Whole(
        "Qwen3VLForConditionalGeneration",
        {
            "model_type": "qwen3_vl",
            "text_config": _named("qwen3_vl_text", **HEADS, **IN_TURN),
            "vision_config": {**QWEN3, "deepstack_visual_indexes": [0, 2]},
            **MARKS,
        },
        ((24, 40),),
    ),
    "qwen3-vl-moe": Whole(
        "Qwen3VLMoeForConditionalGeneration",
        {
            "model_type": "qwen3_vl_moe",
            "text_config": _named("qwen3_vl_moe_text", **HEADS, **IN_TURN, **EXPERTS),
            "vision_config": {**QWEN3, "deepstack_visual_indexes": [1]},
            **MARKS,
        },
        ((24, 40),),
    ),
    "qwen3.5": Whole(
        "Qwen3_5ForConditionalGeneration",
        {
            "model_type": "qwen3_5",
            "text_config": _named(
                "qwen3_5_text",
                **{**TEXT, **HYBRID},
                **turned(2, 1, 1, mrope_interleaved=True, partial_rotary_factor=0.5),
            ),
            "vision_config": QWEN3,
            **MARKS,
        },
        ((24, 40),),
        spread=0.1,
    ),
    "qwen2-audio": Whole(
        "Qwen2AudioForConditionalGeneration",
        {
            "model_type": "qwen2_audio",
            "text_config": QWEN,
            "audio_config": _named("qwen2_audio_encoder", **HEARD),
            "audio_token_index": TOKEN,
        },
        ((24,),),
        "frames",
    ),
    "voxtral": Whole(
        "VoxtralForConditionalGeneration",
        {
            "model_type": "voxtral",
            "text_config": _named("llama", **HEADS),
            "audio_config": _named("voxtral_encoder", **JOINED),
            "audio_token_id": TOKEN,
        },
        ((24,),),
        "frames",
    ),
    "voxtral-realtime": Whole(
        "VoxtralRealtimeForConditionalGeneration",
        {
            "model_type": "voxtral_realtime",
            "text_config": _named("voxtral_realtime_text", **HEADS, sliding_window=4),
            "audio_config": _named("voxtral_realtime_encoder", **STREAMED),
            "default_num_delay_tokens": 3,
        },
        ((72,),),
        "frames",
        spread=0.2,
    ),
}
"""By name."""
PROCESSED = {"patch_size": 4, "min_pixels": 64, "max_pixels": 16384}
"""What the file beside says of images, so that Qwen's may be small."""
