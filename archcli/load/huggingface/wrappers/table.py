"""Tables of wrappers and of their text parts by model_type."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load.huggingface.wrappers.wrapper import (
    EITHER,
    TIED,
    UNTIED,
    TextClass,
    Wrapper,
    capped,
    either,
    halves,
    never,
    of_first,
    of_text,
    text_head,
)

EXPERTS = {"num_local_experts": "num_experts"}
WHOLE_HEADS = {"partial_rotary_factor": 1.0}  # GLM-4 turns half of each head
NO_WINDOW = {"use_sliding_window": False, "sliding_window": None}

TEXTS: Mapping[str, TextClass] = {
    "emu3_text_model": TextClass("llama"),
    "glm4v_text": TextClass("glm4", WHOLE_HEADS, {"attention_bias": True, "head_dim": None}),
    "glm4v_moe_text": TextClass("glm4_moe", fixed={"use_qk_norm": False}),
    "glm_ocr_text": TextClass("glm4", {**WHOLE_HEADS, "head_dim": None}, {"attention_bias": False}),
    "granite_docling_text": TextClass("granite"),
    "hunyuan_vl_text": TextClass(
        "hunyuan_v1_dense", synonyms={"attention_head_dim": "head_dim", "org_vocab_size": "vocab_size"}
    ),
    "qwen2_vl_text": TextClass("qwen2"),
    "qwen2_5_vl_text": TextClass("qwen2"),
    # to_dict says null, as windows are off by default
    "qwen2_5_omni_text": TextClass("qwen2", {"sliding_window": 32768}),
    "qwen3_vl_text": TextClass("qwen3"),
    "qwen3_vl_moe_text": TextClass(
        "qwen3_moe", fixed={"norm_topk_prob": True, **NO_WINDOW}, synonyms=EXPERTS
    ),
    "qwen3_omni_moe_text": TextClass("qwen3_moe", fixed=NO_WINDOW),
}
"""Text parts by model_type; class_defaults.json has the defaults of their classes."""

RENAMED = {"exaone4_5_text": "exaone4"}
"""Types of text parts for which the wrapper's class takes a family's."""


# what VoxtralConfig fills in for a text_config that leaves sizes out, and GlmAsrConfig below
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
VOXTRAL_REALTIME = {
    **{key: value for key, value in VOXTRAL.items() if key != "rope_theta"},
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 32,
    "rope_theta": 1000000.0,
    "sliding_window": 8192,
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
BLIP = {"encoder_hidden_size": ("vision_config", "hidden_size", 768)}
DELAY = {"num_delay_tokens": ("", "default_num_delay_tokens", 6)}
PREFIX = {"use_bidirectional_attention": "tokens before the answer attend both ways; all are counted causal"}

WRAPPERS: Mapping[str, Wrapper] = {
    "apertus1p5": Wrapper("apertus1p5_text", UNTIED, head=text_head, any_text=False),
    "audioflamingo3": Wrapper("qwen2", never),
    "blip": Wrapper("blip_text_model", either(default=True), head=text_head, any_text=False, taken=BLIP),
    "blip-2": Wrapper("opt", of_text, head=text_head),
    "cosmos3_omni": Wrapper("qwen3_vl_text", UNTIED),
    "deepseek_vl": Wrapper("llama", TIED),
    "deepseek_vl_hybrid": Wrapper("llama", TIED),
    "fast_vlm": Wrapper("qwen2", EITHER, partial=True),
    "fun_asr_nano": Wrapper("qwen3", TIED, partial=True),
    "fuyu": Wrapper("persimmon", UNTIED, partial=True),
    "gemma3": Wrapper("gemma3_text", TIED, any_text=False),
    "gemma3n": Wrapper("gemma3n_text", TIED, head=text_head, any_text=False),
    "gemma4": Wrapper("gemma4_text", TIED, head=text_head, any_text=False),
    "gemma4_unified": Wrapper("gemma4_unified_text", TIED, head=text_head, any_text=False),
    "glmasr": Wrapper("llama", TIED, defaults=GLM_ASR),
    "got_ocr2": Wrapper("qwen2", TIED, partial=True),
    "granite_speech": Wrapper("granite", TIED),
    "granite_speech_plus": Wrapper("granite", TIED),
    "idefics2": Wrapper("mistral", UNTIED, partial=True),
    "idefics3": Wrapper("llama", UNTIED, partial=True),
    "inkling_mm_model": Wrapper("inkling_text", never, head=text_head, any_text=False),
    "instructblip": Wrapper("opt", of_text, head=text_head),
    "instructblipvideo": Wrapper("opt", of_text, head=text_head),
    "internvl": Wrapper("qwen2", TIED),
    "janus": Wrapper("llama", TIED),
    "kimi_k25": Wrapper("deepseek_v3", TIED),
    "lfm2_vl": Wrapper("lfm2", TIED),
    "lfm3_vl": Wrapper("lfm3", TIED),
    "lighton_ocr": Wrapper("qwen3", TIED, partial=True),
    "llama4": Wrapper("llama4_text", of_text, head=text_head, any_text=False),
    "llava": Wrapper("llama", EITHER),
    "llava_next": Wrapper("llama", UNTIED),
    "llava_next_video": Wrapper("llama", EITHER),
    "llava_onevision": Wrapper("qwen2", EITHER),
    "mistral3": Wrapper("mistral", TIED, partial=True),
    "minimax_m3_vl": Wrapper("minimax_m3_vl_text", EITHER, any_text=False),
    "modernvbert": Wrapper("modernbert", UNTIED, head=text_head),
    "moss_transcribe_diarize": Wrapper("qwen3", TIED, partial=True),
    "musicflamingo": Wrapper("qwen2", never),
    "nemotron_h_omni": Wrapper("nemotron_h", never, headed=("NemotronH_Omni_Reasoning_V3",)),
    "ovis2": Wrapper("qwen2", TIED, head_sizes={"hidden_size": 1536, "vocab_size": 151643}),
    "paligemma": Wrapper("gemma", TIED, head=capped, partial=True, left_out=PREFIX),
    "perception_lm": Wrapper("llama", of_first),
    "pp_chart2table": Wrapper("qwen2", TIED, partial=True),
    "qianfan_ocr": Wrapper("qwen3", UNTIED),
    "qwen2_5_omni_thinker": Wrapper("qwen2_5_omni_text", UNTIED, any_text=False),
    "qwen2_audio": Wrapper("qwen2", never),
    "qwen2_vl": Wrapper("qwen2_vl_text", EITHER, any_text=False),
    "qwen2_5_vl": Wrapper("qwen2_5_vl_text", EITHER, any_text=False),
    "qwen3_vl": Wrapper("qwen3_vl_text", UNTIED, any_text=False),
    "qwen3_5": Wrapper("qwen3_5_text", UNTIED, any_text=False),
    "qwen3_5_moe": Wrapper("qwen3_5_moe_text", UNTIED, any_text=False),
    "qwen4_exp": Wrapper("qwen4_exp_text", UNTIED, any_text=False),
    "minicpmv4_6": Wrapper("qwen3_5_text", UNTIED),
    "minicpmv4_7": Wrapper("qwen3_5_text", UNTIED),
    "minicpm_ocr": Wrapper("qwen3_5_text", TIED),
    "qwen3_omni_moe_thinker": Wrapper("qwen3_omni_moe_text", UNTIED, any_text=False),
    "qwen3_vl_moe": Wrapper("qwen3_vl_moe_text", UNTIED, any_text=False),
    "qwen3_asr": Wrapper("qwen3", TIED, partial=True),
    "shieldgemma2": Wrapper("gemma3_text", EITHER, headed=("ShieldGemma2ForImageClassification",)),
    "step3p7": Wrapper("step3p5", UNTIED, any_text=False),
    "smolvlm": Wrapper("llama", UNTIED, partial=True),
    "ultravbert": Wrapper("ultrabert", UNTIED, head=text_head),
    "vibevoice": Wrapper("qwen2", of_text),
    "vibevoice_asr": Wrapper("qwen2", never),
    "video_llama_3": Wrapper("qwen2", EITHER),
    "video_llava": Wrapper("llama", UNTIED),
    "vipllava": Wrapper("llama", UNTIED),
    "voxtral": Wrapper("llama", never, defaults=VOXTRAL),
    "voxtral_realtime": Wrapper(
        "voxtral_realtime_text", TIED, any_text=False, defaults=VOXTRAL_REALTIME, taken=DELAY
    ),
    "aya_vision": Wrapper("cohere2", TIED),
    "cohere2_vision": Wrapper("cohere2", TIED),
    "cohere_compass": Wrapper("cohere_compass_text", UNTIED, head=text_head, any_text=False),
    "cosmos3_edge": Wrapper("cosmos3_edge_text", never, any_text=False),
    "dots3_note": Wrapper("dots3_note_text", UNTIED, any_text=False),
    "emu3": Wrapper("emu3_text_model", UNTIED, any_text=False),
    "exaone4_5": Wrapper("exaone4", UNTIED),
    "glm4v": Wrapper("glm4v_text", EITHER, any_text=False),
    "glm46v": Wrapper("glm4v_text", UNTIED),
    "glm4v_moe": Wrapper("glm4v_moe_text", EITHER, any_text=False),
    "glm5_next": Wrapper("glm5_next_text", UNTIED, any_text=False),
    "glm_ocr": Wrapper("glm_ocr_text", EITHER, any_text=False),
    "glmga": Wrapper("glm4v_text", UNTIED),
    "granite_docling": Wrapper("granite_docling_text", TIED, head=text_head, any_text=False),
    "hunyuan_vl": Wrapper("hunyuan_vl_text", either(default=True), any_text=False),
    "hyperclovax_vision_v2": Wrapper("hyperclovax", TIED, head=text_head),
    "paddleocr_vl": Wrapper("paddleocr_vl_text", either(default=True), any_text=False),
    "aria": Wrapper("aria_text", UNTIED, any_text=False),
    "mllama": Wrapper("mllama_text_model", never, any_text=False),
    "ernie4_5_vl_moe": Wrapper("ernie4_5_vl_moe_text", TIED, any_text=False),
    "kosmos-2": Wrapper("kosmos_2_text_model", either(default=True), any_text=False),
    "kosmos-2.5": Wrapper("kosmos_2_5_text_model", of_text, any_text=False),
    "muse_glimmer": Wrapper("muse_glimmer_text", UNTIED, head=text_head, any_text=False),
    "muse_spark": Wrapper("muse_spark_text", never, head=text_head, any_text=False),
    "florence2": Wrapper("bart", halves),
    "molmo2": Wrapper("molmo2_text", never, any_text=False),
    # wrappers of a wrapper
    "qwen2_5_omni": Wrapper("qwen2_5_omni_thinker", of_text, "thinker_config", any_text=False),
    "qwen3_omni_moe": Wrapper("qwen3_omni_moe_thinker", of_text, "thinker_config", any_text=False),
    # classes that their repositories hold: a causal language model of transformers as it is
    "deepseek_vl_v2": Wrapper("deepseek_v2", of_text, "language_config", text_head),
    "internvl_chat": Wrapper("llama", of_text, "llm_config", text_head, headed=("InternVLChatModel",)),
    "multi_modality": Wrapper(
        "llama", of_text, "language_config", text_head, headed=("MultiModalityCausalLM",)
    ),
    "NVLM_D": Wrapper("qwen2", of_text, "llm_config", text_head, headed=("NVLM_D_Model",)),
}
"""Model types whose text part is exactly a model of a family, as the class in transformers has it."""

OWN_CODE = ("deepseek_vl_v2", "internvl_chat", "multi_modality", "NVLM_D")
"""Wrappers whose class is in their repositories alone."""
