"""A.X K1: AXK1Config and AXK1ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder, without_prediction
from archcli.load.huggingface.parts.experts import (
    after_first_in_steps,
    by_types,
    deepseek_experts,
    some_routed,
)
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, MLA, SHARED

MODEL_TYPES = ("axk1",)
DEFAULTS = {
    "vocab_size": 163840,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "n_shared_experts": 1,
    "n_routed_experts": 192,
    "routed_scaling_factor": 2.5,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "qk_nope_head_dim": 128,
    "n_group": 8,
    "topk_group": 4,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "rope_interleave": True,
    "attention_bias": False,
}
WEIGHTS = {
    **LLAMA,
    **MLA,
    **EXPERTS,
    **SHARED,
    **CORRECTED,
    **{
        f"[model.]layers.*.{mlp}post_mlp_layernorm.weight": "layers.*.ffn.out_norm.weight"
        for mlp in ("", "mlp.")
    },
}


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3, with a norm after each mixture of experts."""
    config = config.of_class(DEFAULTS, num_experts="n_routed_experts", num_local_experts="n_routed_experts")
    config.ignore("scoring_func", "topk_method")
    without_prediction(config)
    for key in ("q_lora_rank", "norm_topk_prob", "rope_interleave"):
        if config.stated_null(key):
            raise config.error(f"{key} null is not supported", "leave it out, or state a value")
    attention = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    norm, routed = rmsnorm(config), by_types(config, lambda: after_first_in_steps(config))
    networks = some_routed(config, routed, lambda: deepseek_experts(config, out_norm=norm))
    return decoder(config, norm, networks([{"kind": "pre_norm", "attention": attention}] * len(routed)))
