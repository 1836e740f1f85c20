"""The table of GGUF architectures: the Hugging Face family of each."""

from __future__ import annotations

from archcli.load.gguf.arch import (
    ALL_ATTENTION,
    BIASED,
    BIASED_MLP,
    EPSILON,
    FUSED_GATE,
    LATE,
    LATENT,
    SANDWICH,
    SHARED_EXPERTS,
    SOFTCAPS,
    WINDOW,
    Arch,
)
from archcli.load.gguf.newer import NEWER
from archcli.load.gguf.recurrent import RECURRENT

FIRST: dict[str, Arch] = {
    "llama": Arch("llama", "LlamaForCausalLM", flags=BIASED_MLP),
    "llama4": Arch(
        "llama4_text",
        "Llama4ForCausalLM",
        keys={
            # Llama 4 calls the width of an expert intermediate_size
            "feed_forward_length": "intermediate_size_mlp",
            "expert_feed_forward_length": "intermediate_size",
            "interleave_moe_layer_step": "interleave_moe_layer_step",
            "expert_count": "num_local_experts",
            "attention.chunk_size": "attention_chunk_size",
        },
        flags=BIASED,
        ignored=("leading_dense_block_count",),
    ),
    "qwen2": Arch("qwen2", "Qwen2ForCausalLM"),
    "qwen2moe": Arch(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        keys={"expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
        flags={"qkv_bias": "blk.0.attn_q.bias"},
    ),
    "qwen3": Arch("qwen3", "Qwen3ForCausalLM"),
    # the class's default is false; llama.cpp normalizes the weights of the chosen experts in any qwen3moe
    "qwen3moe": Arch("qwen3_moe", "Qwen3MoeForCausalLM", fixed={"norm_topk_prob": True}, flags=BIASED),
    "gemma": Arch("gemma", "GemmaForCausalLM", flags=BIASED),
    "gemma2": Arch(
        "gemma2", "Gemma2ForCausalLM", keys={**SOFTCAPS, **WINDOW}, flags=BIASED, tensors=SANDWICH
    ),
    "gemma3": Arch(
        "gemma3_text",
        "Gemma3ForCausalLM",
        keys={**SOFTCAPS, **WINDOW, "rope.freq_base_swa": "rope_local_base_freq"},
        flags=BIASED,
        tensors=SANDWICH,
    ),
    "phi2": Arch("phi", "PhiForCausalLM", partial=True),
    "phi3": Arch("phi3", "Phi3ForCausalLM", keys=WINDOW, tensors=FUSED_GATE, partial=True),
    "gpt2": Arch(
        "gpt2",
        "GPT2LMHeadModel",
        keys={**EPSILON, "feed_forward_length": "n_inner", "context_length": "n_positions"},
        rope=False,
        unread=("num_key_value_heads", "head_dim"),
    ),
    "gptneox": Arch(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        keys={"use_parallel_residual": "use_parallel_residual"},
        partial=True,
        unread=("num_key_value_heads", "head_dim"),
    ),
    "falcon": Arch(
        "falcon",
        "FalconForCausalLM",
        keys={**EPSILON, "attention.head_count_kv": "num_kv_heads", "feed_forward_length": "ffn_hidden_size"},
        flags={"bias": "blk.0.attn_qkv.bias"},
    ),
    "mpt": Arch("mpt", "MPTForCausalLM", keys={**EPSILON, "context_length": "max_seq_len"}, rope=False),
    "bloom": Arch(
        "bloom",
        "BloomForCausalLM",
        keys={**EPSILON, "context_length": "seq_length"},
        rope=False,
        unread=("num_key_value_heads", "head_dim", "intermediate_size"),
    ),
    "starcoder2": Arch(
        "starcoder2",
        "Starcoder2ForCausalLM",
        keys={"attention.layer_norm_epsilon": "norm_epsilon", **WINDOW},
        flags={"use_bias": "blk.0.ffn_up.bias"},
    ),
    "stablelm": Arch(
        "stablelm",
        "StableLmForCausalLM",
        keys={"use_parallel_residual": "use_parallel_residual"},
        flags={"use_qkv_bias": "blk.0.attn_q.bias", "qk_layernorm": "blk.0.attn_q_norm.weight"},
        partial=True,
    ),
    "command-r": Arch(
        "cohere",
        "CohereForCausalLM",
        keys={"logit_scale": "logit_scale"},
        flags={"use_qk_norm": "blk.0.attn_q_norm.weight", **BIASED},
    ),
    "olmo": Arch(
        "olmo",
        "OlmoForCausalLM",
        keys={"attention.clamp_kqv": "clip_qkv"},
        # OlmoLayerNorm takes 1e-5, whatever a file says
        ignored=("attention.layer_norm_epsilon",),
    ),
    "olmo2": Arch(
        "olmo2",
        "Olmo2ForCausalLM",
        flags=BIASED,
        tensors={"post_attention_norm": "attention_norm", "post_ffw_norm": "ffn_norm"},
    ),
    "deepseek2": Arch("deepseek_v2", "DeepseekV2ForCausalLM", keys={**SHARED_EXPERTS, **LATENT}),
    "chatglm": Arch(
        "glm",
        "GlmForCausalLM",
        tensors=FUSED_GATE,
        partial=True,
    ),
    "glm4moe": Arch(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        keys=SHARED_EXPERTS,
        flags={"attention_bias": "blk.0.attn_q.bias", "use_qk_norm": "blk.0.attn_q_norm.weight"},
        tensors=LATE,
        partial=True,
        ignored=("expert_gating_func",),
    ),
    "granite": Arch(
        "granite",
        "GraniteForCausalLM",
        keys={
            "attention.scale": "attention_multiplier",
            "embedding_scale": "embedding_multiplier",
            "residual_scale": "residual_multiplier",
            "logit_scale": "logits_scaling",
        },
        flags=BIASED_MLP,
        ignored=ALL_ATTENTION,
    ),
    "nemotron": Arch(
        "nemotron",
        "NemotronForCausalLM",
        keys={"attention.layer_norm_epsilon": "norm_eps"},
        flags=BIASED_MLP,
        partial=True,
    ),
    "minicpm3": Arch("minicpm3", "MiniCPM3ForCausalLM", keys=LATENT, flags={"mlp_bias": "blk.0.ffn_up.bias"}),
    "smollm3": Arch("smollm3", "SmolLM3ForCausalLM", flags=BIASED_MLP),
    "gpt-oss": Arch(
        "gpt_oss",
        "GptOssForCausalLM",
        keys={
            **WINDOW,
            "expert_count": "num_local_experts",
            "expert_feed_forward_length": "intermediate_size",
        },
        flags=BIASED,
        tensors=LATE,
        ignored=("feed_forward_length",),
        # the default of GptOssConfig, which no metadata key states
        scaling={"truncate": False},
    ),
    "t5": Arch(
        "t5",
        "T5ForConditionalGeneration",
        keys={
            "context_length": "n_positions",
            "embedding_length": "d_model",
            "block_count": "num_layers",
            "decoder_block_count": "num_decoder_layers",
            "feed_forward_length": "d_ff",
            "attention.head_count": "num_heads",
            "attention.key_length": "d_kv",
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
            "attention.relative_buckets_count": "relative_attention_num_buckets",
        },
        rope=False,
        ignored=("attention.layer_norm_epsilon", "decoder_start_token_id"),
    ),
    "bert": Arch(
        "bert",
        "BertModel",
        tensors={"attn_output_norm": "attention_norm", "layer_output_norm": "ffn_norm"},
        rope=False,
        # convert_hf_to_gguf.py drops the pooler, as llama.cpp runs BERT for embeddings alone
        over={"pooler": False},
        ignored=("pooling_type",),
    ),
}
"""Architectures of the first families; `newer.py` has those that came later."""

ARCHS: dict[str, Arch] = {**FIRST, **NEWER, **RECURRENT}
"""`general.architecture`: what it stands for."""

LAYER_TYPES = frozenset(
    (
        "gemma2",
        "gemma3_text",
        "gemma3n_text",
        "gemma4_text",
        "gpt_oss",
        "olmo3",
        "exaone4",
        "exaone_moe",
        "step3p5",
    )
)
"""`model_type` of families with the window in some layers, named by `layer_types`."""

TIED = frozenset(
    ("gpt2", "gemma", "gemma2", "gemma3", "falcon", "mpt", "bloom", "starcoder2", "command-r", "cohere2")
)
"""Architectures whose families have no output matrix of their own."""

MISTRAL = Arch("mistral", "MistralForCausalLM", keys=WINDOW)
"""A `llama` with a window."""

MIXTRAL = Arch(
    "mixtral",
    "MixtralForCausalLM",
    keys={"expert_count": "num_local_experts", **WINDOW},
    ignored=("expert_feed_forward_length",),
)
"""A `llama` with experts."""

OLMO3 = ARCHS["olmo2"]._replace(model_type="olmo3", cls="Olmo3ForCausalLM", keys=WINDOW)
"""An `olmo2` with a window."""

DEEPSEEK_V3 = ARCHS["deepseek2"]._replace(model_type="deepseek_v3", cls="DeepseekV3ForCausalLM")
"""A `deepseek2` whose experts are chosen by sigmoid scores."""
