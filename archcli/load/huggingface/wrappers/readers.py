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
    ("idefics2", "vision_config"): "queried:idefics2",
    ("aria", "vision_config"): "queried:aria",
    ("blip-2", "vision_config"): "queried:blip2",
    ("molmo2", "vision_config"): "queried:molmo2",
    ("mllama", "vision_config"): "crossed:mllama",
    ("florence2", "vision_config"): "crossed:florence2",
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
    ("janus", "vision_config"): "vision:janus",
    ("lfm2_vl", "vision_config"): "vision:lfm2_vl",
    ("qwen2_audio", "audio_config"): "heard:qwen2_audio",
    ("granite_speech", "encoder_config"): "heard:granite_speech",
    ("phi4_multimodal", "audio_config"): "heard:phi4",
    ("gemma4", "vision_config"): "gemma4:vision",
    ("gemma4", "audio_config"): "gemma4:audio",
    ("voxtral", "audio_config"): "heard:voxtral",
    ("qwen2_5_omni_thinker", "vision_config"): "qwen:qwen2_5_vl",
    ("qwen2_5_omni_thinker", "audio_config"): "omni:qwen2_5_omni",
    ("qwen3_omni_moe_thinker", "vision_config"): "qwen:qwen3_vl",
    ("qwen3_omni_moe_thinker", "audio_config"): "omni:qwen3_omni",
}
"""By model_type of the wrapper and key of the tower: module of this package, and function."""

JOINS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("idefics2", "vision_config"): ("perceiver_config",),
    ("blip-2", "vision_config"): ("qformer_config",),
    ("molmo2", "vision_config"): ("adapter_config",),
    ("granite_speech", "encoder_config"): ("projector_config",),
}
"""Further keys that a tower's function reads: parts of its projector."""

OPTIONAL = {("gemma4", "vision_config"), ("gemma4", "audio_config")}
"""Towers that a class has only where the file states them; others it makes of defaults."""
