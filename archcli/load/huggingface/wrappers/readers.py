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
    ("kimi_k25", "vision_config"): "qwen:kimi",
    ("qwen2_audio", "audio_config"): "heard:qwen2_audio",
    ("granite_speech", "encoder_config"): "heard:granite_speech",
    ("granite_speech_plus", "encoder_config"): "heard:granite_speech",
    ("audioflamingo3", "audio_config"): "heard:audioflamingo3",
    ("musicflamingo", "audio_config"): "heard:audioflamingo3",
    ("glmasr", "audio_config"): "heard:glmasr",
    ("qwen3_asr", "audio_config"): "omni:qwen3_asr",
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

OPTIONAL = {("gemma4", "vision_config"), ("gemma4", "audio_config")}
"""Towers that a class has only where the file states them; others it makes of defaults."""

JOINING: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("granite_speech", "encoder_config"): ("projector_config",),
    ("granite_speech_plus", "encoder_config"): ("projector_config",),
}
"""Parts that join a tower to the language model, and are read with it."""
