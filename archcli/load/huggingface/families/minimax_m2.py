"""MiniMax-M2: MiniMaxM2Config and MiniMaxM2ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import head_dim
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MIXTRAL_EXPERTS, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("minimax_m2",)
DEFAULTS = {
    "vocab_size": 200064,
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "max_position_embeddings": 196608,
    "rms_norm_eps": 1e-6,
    "rope_theta": 5000000.0,
    "num_experts_per_tok": 8,
    "num_local_experts": 256,
    "tie_word_embeddings": False,
}
FIXED = ("use_qk_norm", "qk_norm_type", "scoring_func", "use_routing_bias", "attn_type_list", "use_mtp")
"""Keys of published files that the class does not read: it is as they say."""
PREDICTION = ("num_mtp_modules", "mtp_transformer_layers", "shared_intermediate_size")


def mapping(config: Config) -> Mapped:
    """As Llama with a norm over all queries or keys, RoPE on a part of each head, and experts.

    Experts are chosen by sigmoid scores and a correction bias. `rotary_dim` stands for a partial RoPE.
    """
    config = config.of_class(DEFAULTS, num_experts="num_local_experts")
    config.ignore(*FIXED, *PREDICTION, "router_jitter_noise")
    width, turned = head_dim(config), config.optional_size("rotary_dim")
    share = 1.0 if turned is None else turned.value / width.value
    heads = {"qk_norm": {"per": "full"}, "position": rope(config, width, partial=share)}
    router = {"scores": "sigmoid", "correction": True}
    return llama_like(config, heads=heads, ffn=experts(config, width="intermediate_size", router=router))


WEIGHTS: Weights = {
    **LLAMA,
    **QK_NORM,
    **EXPERTS,
    **MIXTRAL_EXPERTS,
    **{
        f"[model.]layers.*.{ffn}.e_score_correction_bias": "layers.*.ffn.route.correction_bias"
        for ffn in ("mlp", "block_sparse_moe")
    },
}
