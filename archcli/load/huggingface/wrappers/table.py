"""The table of wrappers by model_type."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load.huggingface.wrappers.rules import (
    TIED,
    UNTIED,
    capped,
    never,
    of_either,
    of_first,
    of_text,
    own,
)
from archcli.load.huggingface.wrappers.wrapper import Wrapper

VOXTRAL = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000000.0,
}
GLM_ASR = {
    "vocab_size": 59264,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
}
PREFIX = {"use_bidirectional_attention": "tokens before the answer attend both ways; all are counted causal"}

WRAPPERS: Mapping[str, Wrapper] = {
    "audioflamingo3": Wrapper("qwen2", never),
    "blip-2": Wrapper("opt", of_text, head=own),
    "cosmos3_omni": Wrapper("qwen3_vl_text", UNTIED),
    "deepseek_vl": Wrapper("llama", TIED),
    "deepseek_vl_hybrid": Wrapper("llama", TIED),
    "fast_vlm": Wrapper("qwen2", of_either, partial=True),
    "fun_asr_nano": Wrapper("qwen3", TIED, partial=True),
    "gemma3": Wrapper("gemma3_text", TIED, any_text=False),
    "glmasr": Wrapper("llama", TIED, defaults=GLM_ASR),
    "got_ocr2": Wrapper("qwen2", TIED, partial=True),
    "granite_speech": Wrapper("granite", TIED),
    "granite_speech_plus": Wrapper("granite", TIED),
    "idefics2": Wrapper("mistral", UNTIED, partial=True),
    "idefics3": Wrapper("llama", UNTIED, partial=True),
    "instructblip": Wrapper("opt", of_text, head=own),
    "instructblipvideo": Wrapper("opt", of_text, head=own),
    "internvl": Wrapper("qwen2", TIED),
    "janus": Wrapper("llama", TIED),
    "kimi_k25": Wrapper("deepseek_v3", TIED),
    "lighton_ocr": Wrapper("qwen3", TIED, partial=True),
    "llama4": Wrapper("llama4_text", of_text, head=own, any_text=False),
    "llava": Wrapper("llama", of_either),
    "llava_next": Wrapper("llama", UNTIED),
    "llava_next_video": Wrapper("llama", of_either),
    "llava_onevision": Wrapper("qwen2", of_either),
    "mistral3": Wrapper("mistral", TIED, partial=True),
    "moss_transcribe_diarize": Wrapper("qwen3", TIED, partial=True),
    "musicflamingo": Wrapper("qwen2", never),
    "ovis2": Wrapper("qwen2", TIED, head_sizes={"hidden_size": 1536, "vocab_size": 151643}),
    "paligemma": Wrapper("gemma", TIED, head=capped, partial=True, left_out=PREFIX),
    "perception_lm": Wrapper("llama", of_first),
    "pp_chart2table": Wrapper("qwen2", TIED, partial=True),
    "qianfan_ocr": Wrapper("qwen3", UNTIED),
    "qwen2_5_omni_thinker": Wrapper("qwen2_5_omni_text", UNTIED, any_text=False),
    "qwen2_audio": Wrapper("qwen2", never),
    "qwen2_vl": Wrapper("qwen2_vl_text", of_either, any_text=False),
    "qwen2_5_vl": Wrapper("qwen2_5_vl_text", of_either, any_text=False),
    "qwen3_vl": Wrapper("qwen3_vl_text", UNTIED, any_text=False),
    "qwen3_omni_moe_thinker": Wrapper("qwen3_omni_moe_text", UNTIED, any_text=False),
    "qwen3_vl_moe": Wrapper("qwen3_vl_moe_text", UNTIED, any_text=False),
    "qwen3_asr": Wrapper("qwen3", TIED, partial=True),
    "shieldgemma2": Wrapper("gemma3_text", of_either, headed=("ShieldGemma2ForImageClassification",)),
    "smolvlm": Wrapper("llama", UNTIED, partial=True),
    "vibevoice": Wrapper("qwen2", of_text),
    "vibevoice_asr": Wrapper("qwen2", never),
    "video_llama_3": Wrapper("qwen2", of_either),
    "video_llava": Wrapper("llama", UNTIED),
    "vipllava": Wrapper("llama", UNTIED),
    "voxtral": Wrapper("llama", never, defaults=VOXTRAL),
    # classes that their repositories hold: a causal language model of transformers as it is
    "deepseek_vl_v2": Wrapper("deepseek_v2", of_text, "language_config", own),
    "internvl_chat": Wrapper("llama", of_text, "llm_config", own, headed=("InternVLChatModel",)),
    "multi_modality": Wrapper("llama", of_text, "language_config", own, headed=("MultiModalityCausalLM",)),
    "NVLM_D": Wrapper("qwen2", of_text, "llm_config", own, headed=("NVLM_D_Model",)),
}
"""Model types whose text part is exactly a model of a family, as the class in transformers has it."""
