"""Hunyuan with experts (A13B): HunYuanMoEV1Config and HunYuanMoEV1ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import stretched_rope
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA

MODEL_TYPES = ("hunyuan_v1_moe",)
ALIASES = {"num_local_experts": "num_experts", "num_experts_per_tok": "moe_topk"}
FIXED = ("use_qk_norm", "use_mixed_mlp_moe", "num_shared_expert", "moe_intermediate_size", "norm_topk_prob")
"""Keys of published files that the class does not read: it is as they say there."""


def mapping(config: Config) -> Mapped:
    """As Llama, queries and keys normalized after RoPE, with experts and a shared one of the same width.

    `moe_topk` may list the number of experts per token of each layer.
    """
    config = config.of_class(**ALIASES)
    config.ignore(
        *FIXED, "eod_token_id", "attention_head_dim", "moe_random_routing_dropped_token", "moe_drop_tokens"
    )
    width = head_dim(config)
    attend = attention(
        config,
        width,
        bias=config.flag("attention_bias"),
        qk_norm={"per": "head", "when": "after_rope"},
        position=stretched_rope(config, width),
    )
    made = {k: {"kind": "pre_norm", "attention": attend, "ffn": _experts(config, k)} for k in _top_ks(config)}
    return decoder(config, rmsnorm(config), [made[k] for k in _top_ks(config)])


def _top_ks(config: Config) -> list[ConfigValue[int]]:
    """Experts per token of each layer."""
    stated = config.value("num_experts_per_tok")
    if not isinstance(stated.value, list):
        return [config.size("num_experts_per_tok")] * config.layers()
    counts = config.per_layer("num_experts_per_tok", config.layers()) or []
    return [config.as_size("moe_topk", stated.derive(count)) for count in counts]


def _experts(config: Config, top_k: ConfigValue[int]) -> Mapped:
    expert = gated(config)
    return experts(config, expert=expert, shared=expert, top_k=top_k)


WEIGHTS: Weights = {
    **LLAMA,
    **EXPERTS,
    **{
        f"[model.]layers.*.self_attn.{theirs}_layernorm.weight": f"layers.*.attention.{theirs[0]}_norm.weight"
        for theirs in ("query", "key")
    },
    "[model.]layers.*.mlp.gate.wg.weight": "layers.*.ffn.router.weight",
    **{
        f"[model.]layers.*.mlp.shared_mlp.{name}_proj.weight": f"layers.*.ffn.shared.{name}_proj.weight"
        for name in ("gate", "up", "down")
    },
}
