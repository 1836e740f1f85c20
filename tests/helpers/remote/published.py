"""Config files of families whose class is in their repositories, with published totals."""

LLAMA_7B = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32}
BAICHUAN_7B = {"model_type": "baichuan", **LLAMA_7B, "max_position_embeddings": 4096}
BAICHUAN_13B = {
    "model_type": "baichuan",
    "hidden_size": 5120,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "model_max_length": 4096,
}
INTERNLM2 = {"model_type": "internlm2", "vocab_size": 92544, "num_key_value_heads": 8, "bias": False}
EXAONE = {"model_type": "exaone", "vocab_size": 102400, "num_attention_heads": 32, "num_key_value_heads": 8}
RW = {"model_type": "RefinedWebModel", "alibi": False, "bias": False}
QWEN = {"model_type": "qwen", "kv_channels": 128, "no_bias": True}

OPENELM = [0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0]

SSM = {"model_type": "mamba_ssm", "ssm_cfg": {}, "rms_norm": True, "vocab_size": 50277}
SSM2 = {**SSM, "ssm_cfg": {"layer": "Mamba2"}, "pad_vocab_size_multiple": 16}
MINIMAX = {"model_type": "minimax_text_01", "vocab_size": 200064, "hidden_size": 6144, "head_dim": 128}
MINIMAX |= {"num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}
MINIMAX |= {"intermediate_size": 9216, "num_local_experts": 32, "rotary_dim": 64, "postnorm": True}

# total of the safetensors files on the hub, or of the paper or README named here
PUBLISHED = {
    "mamba-130m": ({**SSM, "d_model": 768, "n_layer": 24}, 129_135_360),
    "mamba-2.8b": ({**SSM, "d_model": 2560, "n_layer": 64}, 2_768_345_600),
    "mamba2-2.7b": ({**SSM2, "d_model": 2560, "n_layer": 64}, 2_702_599_680),
    "MiniMax-Text-01": ({**MINIMAX, "attn_type_list": 10 * [*7 * [0], 1]}, 456_089_655_296),
    "baichuan-7b README": ({**BAICHUAN_7B, "vocab_size": 64000}, 7_000_559_616),
    "baichuan-13b README": ({**BAICHUAN_13B, "vocab_size": 64000}, 13_264_901_120),
    "baichuan2-7b": ({**BAICHUAN_7B, "vocab_size": 125696}, 7_505_973_248),
    "baichuan2-13b": ({**BAICHUAN_13B, "vocab_size": 125696}, 13_896_668_160),
    "qwen-7b": ({**QWEN, **LLAMA_7B, "intermediate_size": 22016}, 7_721_324_544),
    "qwen-14b": (
        {
            **QWEN,
            "vocab_size": 152064,
            "hidden_size": 5120,
            "intermediate_size": 27392,
            "num_hidden_layers": 40,
            "num_attention_heads": 40,
        },
        14_167_290_880,
    ),
    "qwen-1.8b": (
        {
            **QWEN,
            "hidden_size": 2048,
            "intermediate_size": 11008,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
        },
        1_836_828_672,
    ),
    "internlm2-7b": ({**INTERNLM2, **LLAMA_7B, "intermediate_size": 14336}, 7_737_708_544),
    "internlm2-1.8b": (
        {
            **INTERNLM2,
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
        },
        1_889_110_016,
    ),
    "internlm2-20b": (
        {
            **INTERNLM2,
            "hidden_size": 6144,
            "intermediate_size": 16384,
            "num_hidden_layers": 48,
            "num_attention_heads": 48,
        },
        19_861_149_696,
    ),
    "exaone-3.0-7.8b": (
        {**EXAONE, "hidden_size": 4096, "intermediate_size": 14336, "tie_word_embeddings": False},
        7_818_448_896,
    ),
    "exaone-3.5-2.4b": (
        {**EXAONE, "hidden_size": 2560, "num_layers": 30, "intermediate_size": 7168},
        2_405_327_360,
    ),
    "deepseek-moe-16b": (
        {
            "model_type": "deepseek",
            "hidden_size": 2048,
            "intermediate_size": 10944,
            "moe_intermediate_size": 1408,
            "num_hidden_layers": 28,
            "num_attention_heads": 16,
            "num_key_value_heads": 16,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
            "first_k_dense_replace": 1,
        },
        16_375_728_128,
    ),
    "yi-6b": ({"model_type": "Yi", **LLAMA_7B}, 6_061_035_520),
    "yi-34b": (
        {
            "model_type": "Yi",
            "hidden_size": 7168,
            "intermediate_size": 20480,
            "num_hidden_layers": 60,
            "num_attention_heads": 56,
            "num_key_value_heads": 8,
        },
        34_388_917_248,
    ),
    "falcon-7b": (
        {**RW, "vocab_size": 65024, "hidden_size": 4544, "n_head": 71, "n_layer": 32}
        | {"multi_query": True, "parallel_attn": True},
        6_921_720_704,
    ),
    "falcon-40b": (
        {
            "model_type": "RefinedWeb",
            "vocab_size": 65024,
            "hidden_size": 8192,
            "n_head": 128,
            "n_head_kv": 8,
            "n_layer": 60,
            "bias": False,
        },
        41_303_293_952,
    ),
    "falcon-rw-1b": (
        {**RW, "vocab_size": 50304, "hidden_size": 2048, "n_head": 32, "n_layer": 24}
        | {"alibi": True, "bias": True},
        1_311_625_216,
    ),
    "stablelm-3b-4e1t": ({"model_type": "stablelm_epoch", "hidden_size": 2560}, 2_795_443_200),
    "stablelm-2-1.6b": (
        {
            "model_type": "stablelm_epoch",
            "vocab_size": 100352,
            "hidden_size": 2048,
            "intermediate_size": 5632,
            "num_hidden_layers": 24,
            "use_qkv_bias": True,
        },
        1_644_515_328,
    ),
    "phi-2": (
        {"model_type": "phi-msft", "vocab_size": 51200, "n_embd": 2560, "n_layer": 32, "n_head": 32},
        2_779_683_840,
    ),
    "openelm-270m arXiv:2404.14619": (
        {
            "model_type": "openelm",
            "num_transformer_layers": 16,
            "model_dim": 1280,
            "head_dim": 64,
            "normalize_qk_projections": True,
            "num_query_heads": 5 * [12] + 7 * [16] + 4 * [20],
            "num_kv_heads": 5 * [3] + 7 * [4] + 4 * [5],
            "ffn_multipliers": OPENELM,
            "share_input_output_layers": True,
        },
        271_527_168,
    ),
    "decilm-7b, of 67 key heads": (
        {
            "model_type": "deci",
            **LLAMA_7B,
            "intermediate_size": 14336,
            "num_key_value_heads_per_layer": 4 * [4] + 23 * [2] + 5 * [1],
        },
        7_043_551_232,
    ),
}
