"""Classes of transformers' mappings that archcli refuses by name, each with the reason."""

RECURRENT = "a recurrent state or a convolution over tokens"
INDEXED = "an indexer chooses the keys of each query"
SHARED_LAYERS = "layers share keys and values, or have embeddings of their own"

LATER: dict[str, str] = {
    **dict.fromkeys(
        (
            "causal/bailing_hybrid",
            "causal/bamba",
            "causal/falcon_h1",
            "causal/falcon_mamba",
            "causal/granitemoehybrid",
            "causal/inkling2_text",
            "causal/inkling_text",
            "causal/jamba",
            "causal/kimi_linear",
            "causal/lfm2",
            "causal/lfm3",
            "causal/mamba",
            "causal/mamba2",
            "causal/minimax",
            "causal/nemotron_h",
            "causal/olmo_hybrid",
            "causal/qwen3_5_moe_text",
            "causal/qwen3_5_text",
            "causal/qwen3_next",
            "causal/recurrent_gemma",
            "causal/rwkv",
            "causal/xlstm",
            "causal/zamba",
            "causal/zamba2",
            "causal/zaya",
            "image-text/inkling2",
            "image-text/inkling_mm_model",
            "image-text/lfm2_vl",
            "image-text/minicpm_ocr",
            "image-text/minicpmv4_6",
            "image-text/minicpmv4_7",
            "sequence-to-sequence/nemo_speechlm",
            "image-text/lfm3_vl",
            "image-text/nemotron_h_omni",
            "image-text/qwen3_5",
            "image-text/qwen3_5_moe",
        ),
        RECURRENT,
    ),
    **dict.fromkeys(
        (
            "causal/axk2",
            "causal/deepseek_v32",
            "causal/deepseek_v4",
            "causal/dots3_note_text",
            "causal/glm_moe_dsa",
            "causal/hy_v4",
            "image-text/dots3_note",
            "image-text/glm5_next",
            "image-text/mistral_large4",
        ),
        INDEXED,
    ),
    **dict.fromkeys(
        (
            "causal/gemma3n_text",
            "causal/gemma4",
            "causal/gemma4_text",
            "causal/gemma4_unified",
            "causal/gemma4_unified_text",
            "image-text/gemma4",
            "image-text/gemma4_unified",
        ),
        SHARED_LAYERS,
    ),
    "causal/longcat_flash": "experts that compute nothing, and a mixture beside two layers",
}
"""What needs operations that archcli does not have yet."""

SET_ASIDE: dict[str, str] = {}
"""What archcli could say and does not, or what is too odd for one forward in its operations."""
