"""DeepSeek-V2 and V2-Lite: DeepseekV2Config and DeepseekV2ForCausalLM."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.parts.attention import Flag, latent_attention
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.feed_forward import gated, shared_expert
from archcli.load.huggingface.parts.norms import rmsnorm
from archcli.load.huggingface.value import Mapped, without_none
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MLA, SHARED
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("deepseek_v2",)

DEFAULTS = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "first_k_dense_replace": 0,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "routed_scaling_factor": 1.0,
    "topk_method": "greedy",
    "v_head_dim": 128,
    "moe_intermediate_size": 1407,
}
ALIASES = {"num_experts": "n_routed_experts"}


def mapping(config: Config) -> Mapped:
    """Latent attention with interleaved RoPE; dense layers first, then routed and shared experts."""
    config = config.of_class(DEFAULTS, **ALIASES)
    config.only("moe_layer_freq", 1, default=1)
    config.only("use_mla", True, default=True)
    config.only("scoring_func", "softmax", default="softmax")
    config.ignore("norm_topk_prob")  # the class does not normalize whatever norm_topk_prob says
    bias = config.flag("mlp_bias")
    attention = latent_attention(config, "interleaved")
    dense = {"kind": "pre_norm", "attention": attention, "ffn": gated(config, bias=bias)}
    sparse = {"kind": "pre_norm", "attention": attention, "ffn": _experts(config, bias=bias)}
    first, count = config.count("first_k_dense_replace").value, config.layers()
    return decoder(config, rmsnorm(config), [dense if i < first else sparse for i in range(count)])


def _experts(config: Config, *, bias: Flag) -> Mapped:
    """Routed and shared experts; `mlp_bias` applies to the shared expert alone."""
    expert = gated(config, width="moe_intermediate_size")
    return without_none(
        {
            "kind": "moe",
            "n_experts": config.size("num_experts"),
            "top_k": config.size("num_experts_per_tok"),
            "expert": expert,
            "router": {
                "normalized": False,
                "scale": config.number("routed_scaling_factor"),
                **_groups(config),
            },
            "shared": shared_expert(config, gated(config, width="moe_intermediate_size", bias=bias)),
        }
    )


def _groups(config: Config) -> Mapped:
    """The router's groups; with topk_method `greedy` none, whatever n_group states."""
    method = config.value("topk_method")
    if method == "greedy":
        config.ignore("n_group", "topk_group")
        return {}
    if method != "group_limited_greedy":
        what = f"topk_method {short_repr(method.value)} is not supported"
        raise config.error(what, "supported: 'greedy' or 'group_limited_greedy'", method.place)
    return {
        "n_groups": config.size("n_group"),
        "top_k_groups": config.size("topk_group"),
        "group_score": "max",
    }


WEIGHTS: Weights = {**LLAMA, **MLA, **EXPERTS, **SHARED}
