"""Wrappers by model_type: how each holds its language model, and how the parts beside it are read."""

from __future__ import annotations

from collections.abc import Mapping

from archcli.load.huggingface.family import TowerRow
from archcli.load.huggingface.wrappers.wrapper import (
    EITHER,
    TIED,
    UNTIED,
    Wrapper,
    capped,
    either,
    halves,
    never,
    of_first,
    of_text,
    text_head,
)

FLAT = "vision_embed_tokens"
"""In the place of a key: the class's name of a tower whose keys stand in the file itself (Fuyu)."""

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
    "audioflamingo3": Wrapper("qwen2", never, towers=(TowerRow(".heard:audioflamingo3", "audio_config"),)),
    "blip": Wrapper(
        "blip_text_model",
        either(default=True),
        head=text_head,
        any_text=False,
        taken=BLIP,
        towers=(TowerRow(".queried:blip"),),
    ),
    "blip-2": Wrapper(
        "opt", of_text, head=text_head, towers=(TowerRow(".queried:blip2", joins=("qformer_config",)),)
    ),
    "cosmos3_omni": Wrapper("qwen3_vl_text", UNTIED, towers=(TowerRow(".qwen:qwen3_vl"),)),
    "deepseek_vl": Wrapper("llama", TIED, towers=(TowerRow(".vision:deepseek_vl"),)),
    "deepseek_vl_hybrid": Wrapper("llama", TIED),
    "fast_vlm": Wrapper("qwen2", EITHER, partial=True),
    "fun_asr_nano": Wrapper("qwen3", TIED, partial=True),
    "fuyu": Wrapper(
        "persimmon",
        UNTIED,
        partial=True,
        towers=(TowerRow(".crossed:fuyu", FLAT, token=71011, names="FUYU"),),
    ),
    "gemma3": Wrapper(
        "gemma3_text", TIED, any_text=False, towers=(TowerRow(".llava:gemma3", token=262144, names="GEMMA3"),)
    ),
    "gemma3n": Wrapper("gemma3n_text", TIED, head=text_head, any_text=False),
    "gemma4": Wrapper(
        "gemma4_text",
        TIED,
        head=text_head,
        any_text=False,
        towers=(
            TowerRow(".heard_and_seen:vision", optional=True),
            TowerRow(".heard_and_seen:audio", "audio_config", optional=True),
        ),
    ),
    "gemma4_unified": Wrapper("gemma4_unified_text", TIED, head=text_head, any_text=False),
    "glmasr": Wrapper("llama", TIED, defaults=GLM_ASR, towers=(TowerRow(".heard:glmasr", "audio_config"),)),
    "got_ocr2": Wrapper("qwen2", TIED, partial=True, towers=(TowerRow(".documents:got_ocr2"),)),
    "granite_speech": Wrapper(
        "granite",
        TIED,
        towers=(TowerRow(".heard:granite_speech", "encoder_config", joins=("projector_config",)),),
    ),
    "granite_speech_plus": Wrapper(
        "granite",
        TIED,
        towers=(TowerRow(".heard:granite_speech", "encoder_config", joins=("projector_config",)),),
    ),
    "idefics2": Wrapper(
        "mistral", UNTIED, partial=True, towers=(TowerRow(".queried:idefics2", joins=("perceiver_config",)),)
    ),
    "idefics3": Wrapper(
        "llama", UNTIED, partial=True, towers=(TowerRow(".tiles:smolvlm", token=128257, names="connected"),)
    ),
    "inkling_mm_model": Wrapper("inkling_text", never, head=text_head, any_text=False),
    "instructblip": Wrapper(
        "opt", of_text, head=text_head, towers=(TowerRow(".queried:instructblip", joins=("qformer_config",)),)
    ),
    "instructblipvideo": Wrapper(
        "opt", of_text, head=text_head, towers=(TowerRow(".queried:instructblip", joins=("qformer_config",)),)
    ),
    "internvl": Wrapper("qwen2", TIED, towers=(TowerRow(".tiles:internvl", token=151667, names="INTERNVL"),)),
    "janus": Wrapper(
        "llama",
        TIED,
        towers=(
            TowerRow(".dual:janus"),
            TowerRow(".dual:janus_generator", "vq_config"),
        ),
    ),
    "kimi_k25": Wrapper("deepseek_v3", TIED, towers=(TowerRow(".qwen:kimi"),)),
    "lfm2_vl": Wrapper("lfm2", TIED, towers=(TowerRow(".vision:lfm2_vl"),)),
    "lfm3_vl": Wrapper("lfm3", TIED, towers=(TowerRow(".qwen:lfm3_vl"),)),
    "lighton_ocr": Wrapper("qwen3", TIED, partial=True, towers=(TowerRow(".llava:lighton_ocr"),)),
    "llama4": Wrapper(
        "llama4_text", of_text, head=text_head, any_text=False, towers=(TowerRow(".tiles:llama4"),)
    ),
    "llava": Wrapper("llama", EITHER, towers=(TowerRow(".llava:llava", token=32000, names="LLAVA"),)),
    "llava_next": Wrapper(
        "llama", UNTIED, towers=(TowerRow(".llava:llava_next", token=32000, names="LLAVA"),)
    ),
    "llava_next_video": Wrapper("llama", EITHER, towers=(TowerRow(".llava:llava_next_video"),)),
    "llava_onevision": Wrapper(
        "qwen2", EITHER, towers=(TowerRow(".llava:llava_onevision", token=151646, names="LLAVA"),)
    ),
    "mistral3": Wrapper(
        "mistral", TIED, partial=True, towers=(TowerRow(".llava:mistral3", token=10, names="MISTRAL3"),)
    ),
    "minimax_m3_vl": Wrapper(
        "minimax_m3_vl_text", EITHER, any_text=False, towers=(TowerRow(".vision:minimax_m3_vl"),)
    ),
    "modernvbert": Wrapper("modernbert", UNTIED, head=text_head, towers=(TowerRow(".tiles:modernvbert"),)),
    "moss_transcribe_diarize": Wrapper("qwen3", TIED, partial=True),
    "musicflamingo": Wrapper("qwen2", never, towers=(TowerRow(".heard:audioflamingo3", "audio_config"),)),
    "nemotron_h_omni": Wrapper(
        "nemotron_h",
        never,
        headed=("NemotronH_Omni_Reasoning_V3",),
        towers=(
            TowerRow(".heard_and_seen:nemotron_vision"),
            TowerRow(".heard_and_seen:nemotron_audio", "audio_config", optional=True),
        ),
    ),
    "ovis2": Wrapper(
        "qwen2",
        TIED,
        head_sizes={"hidden_size": 1536, "vocab_size": 151643},
        towers=(TowerRow(".tiles:ovis2"),),
    ),
    "paligemma": Wrapper(
        "gemma",
        TIED,
        head=capped,
        partial=True,
        left_out=PREFIX,
        towers=(TowerRow(".llava:paligemma", token=256000, names="PALIGEMMA"),),
    ),
    "perception_lm": Wrapper("llama", of_first),
    "pp_chart2table": Wrapper("qwen2", TIED, partial=True, towers=(TowerRow(".documents:got_ocr2"),)),
    "qianfan_ocr": Wrapper("qwen3", UNTIED, towers=(TowerRow(".tiles:qianfan_ocr"),)),
    "qwen2_5_omni_thinker": Wrapper(
        "qwen2_5_omni_text",
        UNTIED,
        any_text=False,
        towers=(
            TowerRow(".qwen:qwen2_5_vl"),
            TowerRow(".omni:qwen2_5_omni", "audio_config"),
        ),
    ),
    "qwen2_audio": Wrapper(
        "qwen2",
        never,
        towers=(TowerRow(".heard:qwen2_audio", "audio_config", token=151646, names="QWEN2_AUDIO"),),
    ),
    "qwen2_vl": Wrapper(
        "qwen2_vl_text",
        EITHER,
        any_text=False,
        towers=(TowerRow(".qwen:qwen2_vl", token=151655, sections=(16, 24, 24), names="QWEN2"),),
    ),
    "qwen2_5_vl": Wrapper(
        "qwen2_5_vl_text",
        EITHER,
        any_text=False,
        towers=(TowerRow(".qwen:qwen2_5_vl", token=151655, sections=(16, 24, 24), names="QWEN2"),),
    ),
    "qwen3_vl": Wrapper(
        "qwen3_vl_text",
        UNTIED,
        any_text=False,
        towers=(
            TowerRow(".qwen:qwen3_vl", token=151655, sections=(24, 20, 20), in_turn=True, names="QWEN3"),
        ),
    ),
    "qwen3_5": Wrapper(
        "qwen3_5_text",
        UNTIED,
        any_text=False,
        towers=(TowerRow(".qwen:qwen3_5", token=248056, sections=(11, 11, 10), in_turn=True, names="QWEN3"),),
    ),
    "qwen3_5_moe": Wrapper(
        "qwen3_5_moe_text",
        UNTIED,
        any_text=False,
        towers=(TowerRow(".qwen:qwen3_5", token=248056, sections=(11, 11, 10), in_turn=True, names="QWEN3"),),
    ),
    "qwen4_exp": Wrapper("qwen4_exp_text", UNTIED, any_text=False, towers=(TowerRow(".qwen:qwen3_5"),)),
    "minicpmv4_6": Wrapper("qwen3_5_text", UNTIED, towers=(TowerRow(".documents:minicpm_v"),)),
    "minicpmv4_7": Wrapper("qwen3_5_text", UNTIED, towers=(TowerRow(".documents:minicpm_v"),)),
    "minicpm_ocr": Wrapper("qwen3_5_text", TIED, towers=(TowerRow(".documents:minicpm_ocr"),)),
    "qwen3_omni_moe_thinker": Wrapper(
        "qwen3_omni_moe_text",
        UNTIED,
        any_text=False,
        towers=(
            TowerRow(".qwen:qwen3_vl"),
            TowerRow(".omni:qwen3_omni", "audio_config"),
        ),
    ),
    "qwen3_vl_moe": Wrapper(
        "qwen3_vl_moe_text",
        UNTIED,
        any_text=False,
        towers=(
            TowerRow(".qwen:qwen3_vl", token=151655, sections=(24, 20, 20), in_turn=True, names="QWEN3"),
        ),
    ),
    "qwen3_asr": Wrapper("qwen3", TIED, partial=True, towers=(TowerRow(".omni:qwen3_asr", "audio_config"),)),
    "shieldgemma2": Wrapper(
        "gemma3_text",
        EITHER,
        headed=("ShieldGemma2ForImageClassification",),
        towers=(TowerRow(".llava:gemma3"),),
    ),
    "step3p7": Wrapper("step3p5", UNTIED, any_text=False, towers=(TowerRow(".vision:step3p7"),)),
    "smolvlm": Wrapper(
        "llama", UNTIED, partial=True, towers=(TowerRow(".tiles:smolvlm", token=128257, names="connected"),)
    ),
    "ultravbert": Wrapper("ultrabert", UNTIED, head=text_head, towers=(TowerRow(".tiles:ultravbert"),)),
    "vibevoice": Wrapper("qwen2", of_text),
    "vibevoice_asr": Wrapper("qwen2", never),
    "video_llama_3": Wrapper("qwen2", EITHER),
    "video_llava": Wrapper("llama", UNTIED, towers=(TowerRow(".llava:video_llava"),)),
    "vipllava": Wrapper("llama", UNTIED, towers=(TowerRow(".llava:vipllava"),)),
    "voxtral": Wrapper(
        "llama",
        never,
        defaults=VOXTRAL,
        towers=(TowerRow(".heard:voxtral", "audio_config", token=None, names="VOXTRAL"),),
    ),
    "voxtral_realtime": Wrapper(
        "voxtral_realtime_text",
        TIED,
        any_text=False,
        defaults=VOXTRAL_REALTIME,
        taken=DELAY,
        towers=(TowerRow(".heard:voxtral_realtime", "audio_config", names="VOXTRAL_REALTIME"),),
    ),
    "aya_vision": Wrapper("cohere2", TIED, towers=(TowerRow(".llava:aya_vision"),)),
    "cohere2_vision": Wrapper("cohere2", TIED, towers=(TowerRow(".llava:cohere2_vision"),)),
    "cohere_compass": Wrapper("cohere_compass_text", UNTIED, head=text_head, any_text=False),
    "cosmos3_edge": Wrapper(
        "cosmos3_edge_text", never, any_text=False, towers=(TowerRow(".vision:cosmos3_edge"),)
    ),
    "dots3_note": Wrapper(
        "dots3_note_text",
        UNTIED,
        any_text=False,
        towers=(
            TowerRow(".omni:dots3_vision"),
            TowerRow(".omni:dots3_audio", "audio_config"),
        ),
    ),
    "emu3": Wrapper("emu3_text_model", UNTIED, any_text=False),
    "exaone4_5": Wrapper("exaone4", UNTIED, towers=(TowerRow(".qwen:exaone4_5"),)),
    "glm4v": Wrapper("glm4v_text", EITHER, any_text=False, towers=(TowerRow(".qwen:glm4v"),)),
    "glm46v": Wrapper("glm4v_text", UNTIED, towers=(TowerRow(".qwen:glm4v"),)),
    "glm4v_moe": Wrapper("glm4v_moe_text", EITHER, any_text=False, towers=(TowerRow(".qwen:glm4v"),)),
    "glm5_next": Wrapper("glm5_next_text", UNTIED, any_text=False, towers=(TowerRow(".qwen:glm5_next"),)),
    "glm_ocr": Wrapper("glm_ocr_text", EITHER, any_text=False, towers=(TowerRow(".qwen:glm_ocr"),)),
    "glmga": Wrapper("glm4v_text", UNTIED, towers=(TowerRow(".qwen:glm4v"),)),
    "granite_docling": Wrapper(
        "granite_docling_text",
        TIED,
        head=text_head,
        any_text=False,
        towers=(TowerRow(".documents:granite_docling"),),
    ),
    "hunyuan_vl": Wrapper(
        "hunyuan_vl_text", either(default=True), any_text=False, towers=(TowerRow(".documents:hunyuan_vl"),)
    ),
    "hyperclovax_vision_v2": Wrapper(
        "hyperclovax", TIED, head=text_head, towers=(TowerRow(".qwen:hyperclovax"),)
    ),
    "paddleocr_vl": Wrapper(
        "paddleocr_vl_text", either(default=True), any_text=False, towers=(TowerRow(".vision:paddleocr_vl"),)
    ),
    "aria": Wrapper("aria_text", UNTIED, any_text=False, towers=(TowerRow(".queried:aria"),)),
    "mllama": Wrapper(
        "mllama_text_model",
        never,
        any_text=False,
        towers=(TowerRow(".crossed:mllama", token=128256, names="mllama"),),
    ),
    "ernie4_5_vl_moe": Wrapper(
        "ernie4_5_vl_moe_text", TIED, any_text=False, towers=(TowerRow(".vision:ernie4_5_vl"),)
    ),
    "kosmos-2": Wrapper(
        "kosmos_2_text_model", either(default=True), any_text=False, towers=(TowerRow(".queried:kosmos2"),)
    ),
    "kosmos-2.5": Wrapper(
        "kosmos_2_5_text_model", of_text, any_text=False, towers=(TowerRow(".queried:kosmos2_5"),)
    ),
    "muse_glimmer": Wrapper(
        "muse_glimmer_text",
        UNTIED,
        head=text_head,
        any_text=False,
        towers=(TowerRow(".vision:muse_glimmer"),),
    ),
    "muse_spark": Wrapper(
        "muse_spark_text",
        never,
        head=text_head,
        any_text=False,
        towers=(
            TowerRow(".vision:muse_glimmer"),
            TowerRow(".omni:muse_spark", "audio_config"),
        ),
    ),
    "florence2": Wrapper("bart", halves, towers=(TowerRow(".crossed:florence2"),)),
    "molmo2": Wrapper(
        "molmo2_text", never, any_text=False, towers=(TowerRow(".queried:molmo2", joins=("adapter_config",)),)
    ),
    # wrappers of a wrapper
    "qwen2_5_omni": Wrapper("qwen2_5_omni_thinker", of_text, "thinker_config", any_text=False),
    "qwen3_omni_moe": Wrapper("qwen3_omni_moe_thinker", of_text, "thinker_config", any_text=False),
    # classes that their repositories hold: a causal language model of transformers as it is
    "deepseek_vl_v2": Wrapper("deepseek_v2", of_text, "language_config", text_head),
    "internvl_chat": Wrapper(
        "llama",
        of_text,
        "llm_config",
        text_head,
        headed=("InternVLChatModel",),
        towers=(TowerRow(".tiles:internvl_chat"),),
    ),
    "multi_modality": Wrapper(
        "llama", of_text, "language_config", text_head, headed=("MultiModalityCausalLM",)
    ),
    "NVLM_D": Wrapper("qwen2", of_text, "llm_config", text_head, headed=("NVLM_D_Model",)),
}
"""Model types whose text part is exactly a model of a family, as the class in transformers has it."""

OWN_CODE = ("deepseek_vl_v2", "internvl_chat", "multi_modality", "NVLM_D")
"""Wrappers whose class is in their repositories alone."""
