"""Tables by model_type: the function that reads each tower, and the tokens of its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped

FLAT = "vision_embed_tokens"
"""In the place of a key: the class's name of a tower whose keys stand in the file itself (Fuyu)."""

READERS: Mapping[tuple[str, str], str] = {
    ("llava", "vision_config"): "llava:llava",
    ("llava_next", "vision_config"): "llava:llava_next",
    ("llava_next_video", "vision_config"): "llava:llava_next_video",
    ("llava_onevision", "vision_config"): "llava:llava_onevision",
    ("vipllava", "vision_config"): "llava:vipllava",
    ("video_llava", "vision_config"): "llava:video_llava",
    ("aya_vision", "vision_config"): "llava:aya_vision",
    ("cohere2_vision", "vision_config"): "llava:cohere2_vision",
    ("lighton_ocr", "vision_config"): "llava:lighton_ocr",
    ("shieldgemma2", "vision_config"): "llava:gemma3",
    ("mistral3", "vision_config"): "llava:mistral3",
    ("gemma3", "vision_config"): "llava:gemma3",
    ("paligemma", "vision_config"): "llava:paligemma",
    ("git", "vision_config"): "crossed:git",
    ("fuyu", FLAT): "crossed:fuyu",
    ("internvl", "vision_config"): "tiles:internvl",
    ("smolvlm", "vision_config"): "tiles:smolvlm",
    ("idefics3", "vision_config"): "tiles:smolvlm",
    ("internvl_chat", "vision_config"): "tiles:internvl_chat",
    ("minicpmv4_6", "vision_config"): "documents:minicpm_v",
    ("minicpmv4_7", "vision_config"): "documents:minicpm_v",
    ("minicpm_ocr", "vision_config"): "documents:minicpm_ocr",
    ("qianfan_ocr", "vision_config"): "tiles:qianfan_ocr",
    ("modernvbert", "vision_config"): "tiles:modernvbert",
    ("ultravbert", "vision_config"): "tiles:ultravbert",
    ("cosmos3_edge", "vision_config"): "vision:cosmos3_edge",
    ("muse_glimmer", "vision_config"): "vision:muse_glimmer",
    ("muse_spark", "vision_config"): "vision:muse_glimmer",
    ("muse_spark", "audio_config"): "omni:muse_spark",
    ("llama4", "vision_config"): "tiles:llama4",
    ("ovis2", "vision_config"): "tiles:ovis2",
    ("got_ocr2", "vision_config"): "documents:got_ocr2",
    ("pp_chart2table", "vision_config"): "documents:got_ocr2",
    ("granite_docling", "vision_config"): "documents:granite_docling",
    ("hunyuan_vl", "vision_config"): "documents:hunyuan_vl",
    ("hyperclovax_vision_v2", "vision_config"): "qwen:hyperclovax",
    ("instructblip", "vision_config"): "queried:instructblip",
    ("instructblipvideo", "vision_config"): "queried:instructblip",
    ("kosmos-2", "vision_config"): "queried:kosmos2",
    ("kosmos-2.5", "vision_config"): "queried:kosmos2_5",
    ("blip", "vision_config"): "queried:blip",
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
    ("qwen4_exp", "vision_config"): "qwen:qwen3_5",
    ("glm4v", "vision_config"): "qwen:glm4v",
    ("glm4v_moe", "vision_config"): "qwen:glm4v",
    ("glm46v", "vision_config"): "qwen:glm4v",
    ("glmga", "vision_config"): "qwen:glm4v",
    ("glm5_next", "vision_config"): "qwen:glm5_next",
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
    ("lfm3_vl", "vision_config"): "qwen:lfm3_vl",
    ("lfm2_vl", "vision_config"): "vision:lfm2_vl",
    ("qwen2_audio", "audio_config"): "heard:qwen2_audio",
    ("granite_speech", "encoder_config"): "heard:granite_speech",
    ("granite_speech_plus", "encoder_config"): "heard:granite_speech",
    ("audioflamingo3", "audio_config"): "heard:audioflamingo3",
    ("musicflamingo", "audio_config"): "heard:audioflamingo3",
    ("glmasr", "audio_config"): "heard:glmasr",
    ("qwen3_asr", "audio_config"): "omni:qwen3_asr",
    ("dots3_note", "vision_config"): "omni:dots3_vision",
    ("dots3_note", "audio_config"): "omni:dots3_audio",
    ("nemotron_h_omni", "vision_config"): "heard_and_seen:nemotron_vision",
    ("nemotron_h_omni", "audio_config"): "heard_and_seen:nemotron_audio",
    ("phi4_multimodal", "audio_config"): "heard:phi4",
    ("gemma4", "vision_config"): "heard_and_seen:vision",
    ("gemma4", "audio_config"): "heard_and_seen:audio",
    ("voxtral", "audio_config"): "heard:voxtral",
    ("voxtral_realtime", "audio_config"): "heard:voxtral_realtime",
    ("t5gemma2_encoder", "vision_config"): "llava:t5gemma2",
    ("qwen2_5_omni_thinker", "vision_config"): "qwen:qwen2_5_vl",
    ("qwen2_5_omni_thinker", "audio_config"): "omni:qwen2_5_omni",
    ("qwen3_omni_moe_thinker", "vision_config"): "qwen:qwen3_vl",
    ("qwen3_omni_moe_thinker", "audio_config"): "omni:qwen3_omni",
}
"""By model_type of the wrapper and key of the tower: module of this package, and function."""

JOINS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("idefics2", "vision_config"): ("perceiver_config",),
    ("blip-2", "vision_config"): ("qformer_config",),
    ("instructblip", "vision_config"): ("qformer_config",),
    ("instructblipvideo", "vision_config"): ("qformer_config",),
    ("molmo2", "vision_config"): ("adapter_config",),
    ("granite_speech", "encoder_config"): ("projector_config",),
    ("granite_speech_plus", "encoder_config"): ("projector_config",),
}
"""Further keys that a tower's function reads: parts of its projector."""

OPTIONAL = {("gemma4", "vision_config"), ("gemma4", "audio_config"), ("nemotron_h_omni", "audio_config")}
"""Towers that a class has only where the file states them; others it makes of defaults."""

TOKENS = {
    "llava": 32000,
    "llava_next": 32000,
    "llava_onevision": 151646,
    "mistral3": 10,
    "gemma3": 262144,
    "paligemma": 256000,
    "internvl": 151667,
    "smolvlm": 128257,
    "idefics3": 128257,
    "mllama": 128256,
    "qwen2_vl": 151655,
    "qwen2_5_vl": 151655,
    "qwen3_vl": 151655,
    "qwen3_vl_moe": 151655,
    "qwen3_5": 248056,
    "qwen3_5_moe": 248056,
    "fuyu": 71011,
    "qwen2_audio": 151646,
    "voxtral": None,
}
"""The tokens in whose place vectors stand: defaults of the classes whose logits tests compare."""
SECTIONS = {
    "qwen2_vl": (16, 24, 24),
    "qwen2_5_vl": (16, 24, 24),
    "qwen3_vl": (24, 20, 20),
    "qwen3_vl_moe": (24, 20, 20),
    "qwen3_5": (11, 11, 10),
    "qwen3_5_moe": (11, 11, 10),
}
"""Pairs of rotary heads that turn by time, row and column, by model_type: defaults of the classes."""
IN_TURN = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""Classes whose pairs turn by time, row and column in turn."""


def in_prompt(whole: Config, text: Mapping[str, Any], key: str) -> Mapped:
    """How the vectors of a tower stand in the prompt; empty of a class of which it is not known."""
    if whole.model_type not in TOKENS:
        return {}
    kind = "audio" if key == "audio_config" else "image"
    named = (whole.get(f"{kind}_token_{end}", default=None) for end in ("id", "index"))
    token = next((value for value in named if value is not None), TOKENS[whole.model_type])
    if type(token) is not int or token < 0:
        return {}
    return {"token": token, **_turned(whole, text)}


def _turned(whole: Config, text: Mapping[str, Any]) -> Mapped:
    """The sections of rotary heads, as the text part states them or its class has them."""
    usual = SECTIONS.get(whole.model_type)
    if usual is None:
        return {}
    stated = next((text[key] for key in ("rope_parameters", "rope_scaling") if text.get(key)), None)
    sections = stated.get("mrope_section", usual) if isinstance(stated, dict) else usual
    if not isinstance(sections, list | tuple) or len(sections) != len(usual):
        raise whole.error(f"mrope_section must be three numbers, not {short_repr(sections)}")
    return {"sections": [*sections], "interleaved": whole.model_type in IN_TURN}
