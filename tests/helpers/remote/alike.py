"""Tiny files of families whose class is in their repositories, beside files of a class built alike."""

S = {"vocab_size": 88, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6}
SIZES = {**S, "intermediate_size": 20, "num_key_value_heads": 2, "max_position_embeddings": 64}
MHA = {**SIZES, "num_key_value_heads": 6}
GPT = {"vocab_size": 128, "n_embd": 24, "n_layer": 3, "n_head": 3}
AS_PHI = {"vocab_size": 128, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3}
FALCON = {"vocab_size": 88, "hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 6}
AS_RW = {"vocab_size": 88, "hidden_size": 24, "n_layer": 3, "n_head": 6}
SSM = {"model_type": "mamba_ssm", "d_model": 32, "n_layer": 3, "vocab_size": 85, "rms_norm": True}
AS_MAMBA = {"vocab_size": 88, "hidden_size": 32, "num_hidden_layers": 3}
MINIMAX = {**SIZES, "num_local_experts": 4, "head_dim": 4}

# their file, and that of a class that transformers has: the same model
ALIKE = {
    "internlm": (
        {"model_type": "internlm", **MHA, "rotary": {"base": 5000, "type": "dynamic"}},
        {"model_type": "llama", **MHA, "attention_bias": True, "rope_theta": 5000.0},
    ),
    "internlm-20b": ({"model_type": "internlm", **MHA, "bias": False}, {"model_type": "llama", **MHA}),
    "internlm2": (
        {
            "model_type": "internlm2",
            **SIZES,
            "bias": False,
            "rope_scaling": {"type": "dynamic", "factor": 2.0},
        },
        {"model_type": "llama", **SIZES, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
    ),
    "internlm2-biased": (
        {"model_type": "internlm2", **SIZES},
        {"model_type": "llama", **SIZES, "attention_bias": True},
    ),
    "Yi": (
        {"model_type": "Yi", **SIZES},
        {"model_type": "llama", **SIZES, "rms_norm_eps": 1e-5, "rope_theta": 5e6},
    ),
    "xverse": ({"model_type": "xverse", **MHA}, {"model_type": "llama", **MHA}),
    "aquila": ({"model_type": "aquila", **SIZES}, {"model_type": "llama", **SIZES}),
    "baichuan": ({"model_type": "baichuan", **MHA}, {"model_type": "llama", **MHA}),
    "qwen": (
        {"model_type": "qwen", **S, "intermediate_size": 40, "kv_channels": 4, "seq_length": 64}
        | {"rotary_emb_base": 5000},
        {"model_type": "qwen2", **MHA, "rope_theta": 5000.0},
    ),
    "mimo": (
        {"model_type": "mimo", **SIZES, "head_dim": 8, "attention_bias": True},
        {"model_type": "qwen2", **SIZES, "head_dim": 8},
    ),
    "exaone": (
        {"model_type": "exaone", **SIZES, "num_layers": 3, "layer_norm_epsilon": 1e-5},
        {"model_type": "llama", **SIZES, "rms_norm_eps": 1e-5, "tie_word_embeddings": True},
    ),
    "orion": (
        {"model_type": "orion", **SIZES},
        {"model_type": "stablelm", **SIZES, "partial_rotary_factor": 1.0},
    ),
    "stablelm_epoch": (
        {"model_type": "stablelm_epoch", **SIZES, "rope_pct": 0.5, "norm_eps": 1e-6},
        {"model_type": "stablelm", **SIZES, "partial_rotary_factor": 0.5, "layer_norm_eps": 1e-6},
    ),
    "RefinedWebModel": (
        {"model_type": "RefinedWebModel", **AS_RW, "multi_query": True, "parallel_attn": True},
        {"model_type": "falcon", **FALCON},
    ),
    "RefinedWebModel-rw": (
        {"model_type": "RefinedWebModel", **AS_RW, "alibi": True, "bias": True},
        {
            "model_type": "falcon",
            **FALCON,
            "alibi": True,
            "bias": True,
            "multi_query": False,
            "parallel_attn": False,
        },
    ),
    "RefinedWeb": (
        {"model_type": "RefinedWeb", **AS_RW, "n_head_kv": 2},
        {"model_type": "falcon", **FALCON, "num_kv_heads": 2, "new_decoder_architecture": True},
    ),
    "phi-msft": (
        {"model_type": "phi-msft", **GPT, "rotary_dim": 4, "n_inner": None},
        {"model_type": "phi", **AS_PHI, "intermediate_size": 96, "partial_rotary_factor": 0.5},
    ),
    "mixformer-sequential": (
        {"model_type": "mixformer-sequential", **GPT, "vocab_size": 100, "rotary_dim": 32},
        {"model_type": "phi", **AS_PHI, "intermediate_size": 96, "partial_rotary_factor": 1.0},
    ),
    "nemotron-nas": (
        {"model_type": "nemotron-nas", **S, "max_position_embeddings": 64}
        | {"block_configs": 3 * [{"attention": {"n_heads_in_group": 3}, "ffn": {"intermediate_size": 20}}]},
        {"model_type": "llama", **SIZES},
    ),
    "deci": (
        {"model_type": "deci", **MHA, "num_key_value_heads_per_layer": [2, 2, 2]},
        {"model_type": "llama", **SIZES},
    ),
    "openelm": (
        {
            "model_type": "openelm",
            "vocab_size": 88,
            "num_transformer_layers": 3,
            "model_dim": 24,
            "head_dim": 4,
            "num_query_heads": 3 * [6],
            "num_kv_heads": 3 * [2],
            "ffn_multipliers": 3 * [0.8],
            "ffn_dim_divisor": 4,
            "max_context_length": 64,
            "normalize_qk_projections": True,
        },
        {"model_type": "qwen3", **SIZES, "head_dim": 4},
    ),
    "mamba_ssm-1": (
        {**SSM, "ssm_cfg": {"expand": 3}},
        {"model_type": "mamba", **AS_MAMBA, "expand": 3, "intermediate_size": 96},
    ),
    "mamba_ssm": (
        {**SSM, "ssm_cfg": {"layer": "Mamba2", "headdim": 16, "ngroups": 2, "chunk_size": 8}},
        {"model_type": "mamba2", **AS_MAMBA, "num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8}
        | {"tie_word_embeddings": True},
    ),
    "minimax_text_01": (
        {"model_type": "minimax_text_01", **MINIMAX, "attn_type_list": [0, 0, 1], "postnorm": True}
        | {"layernorm_full_attention_alpha": 3.5, "layernorm_linear_attention_beta": 0.5}
        | {"layernorm_mlp_alpha": 2.5, "rotary_dim": 4, "shared_intermediate_size": 0},
        {"model_type": "minimax", **MINIMAX}
        | {"layer_types": ["linear_attention", "linear_attention", "full_attention"]}
        | {"full_attn_alpha_factor": 3.5, "linear_attn_beta_factor": 0.5, "mlp_alpha_factor": 2.5},
    ),
    "deepseek": ({"model_type": "deepseek", **SIZES}, {"model_type": "llama", **SIZES}),
}

MINICPM = {"model_type": "minicpm", **SIZES, "scale_emb": 12, "scale_depth": 1.5, "dim_model_base": 6}
