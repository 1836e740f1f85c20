"""Which function reads which tower of a wrapper's config.json."""

from __future__ import annotations

from collections.abc import Mapping

READERS: Mapping[tuple[str, str], str] = {
    ("llava", "vision_config"): "llava:llava",
    ("llava_next", "vision_config"): "llava:llava_next",
    ("llava_onevision", "vision_config"): "llava:llava_onevision",
    ("mistral3", "vision_config"): "llava:mistral3",
    ("gemma3", "vision_config"): "llava:gemma3",
    ("paligemma", "vision_config"): "llava:paligemma",
    ("internvl", "vision_config"): "tiles:internvl",
    ("smolvlm", "vision_config"): "tiles:smolvlm",
    ("idefics3", "vision_config"): "tiles:smolvlm",
    ("llama4", "vision_config"): "tiles:llama4",
    ("qwen2_vl", "vision_config"): "qwen:qwen2_vl",
    ("qwen2_5_vl", "vision_config"): "qwen:qwen2_5_vl",
    ("qwen3_vl", "vision_config"): "qwen:qwen3_vl",
    ("qwen3_vl_moe", "vision_config"): "qwen:qwen3_vl",
    ("qwen3_5", "vision_config"): "qwen:qwen3_5",
    ("qwen3_5_moe", "vision_config"): "qwen:qwen3_5",
    ("glm4v", "vision_config"): "qwen:glm4v",
    ("glm4v_moe", "vision_config"): "qwen:glm4v",
    ("glm46v", "vision_config"): "qwen:glm4v",
    ("glmga", "vision_config"): "qwen:glm4v",
    ("glm_ocr", "vision_config"): "qwen:glm_ocr",
    ("exaone4_5", "vision_config"): "qwen:exaone4_5",
    ("ernie4_5_vl_moe", "vision_config"): "vision:ernie4_5_vl",
    ("paddleocr_vl", "vision_config"): "vision:paddleocr_vl",
    ("cosmos3_omni", "vision_config"): "qwen:qwen3_vl",
    ("kimi_k25", "vision_config"): "qwen:kimi",
    ("minimax_m3_vl", "vision_config"): "vision:minimax_m3_vl",
    ("deepseek_vl", "vision_config"): "vision:deepseek_vl",
    ("step3p7", "vision_config"): "vision:step3p7",
    ("phi4_multimodal", "vision_config"): "vision:phi4_multimodal",
    ("clip", "vision_config"): "dual:clip",
    ("siglip", "vision_config"): "dual:siglip",
    ("siglip2", "vision_config"): "dual:siglip2",
    ("janus", "vision_config"): "dual:janus",
    ("janus", "vq_config"): "dual:janus_generator",
    ("lfm2_vl", "vision_config"): "vision:lfm2_vl",
    ("qwen2_audio", "audio_config"): "heard:qwen2_audio",
    ("voxtral", "audio_config"): "heard:voxtral",
}
"""By model_type of the wrapper and key of the tower: module of this package, and function."""
