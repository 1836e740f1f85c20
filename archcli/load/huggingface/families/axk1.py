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
    config = config.of_class(num_experts="n_routed_experts", num_local_experts="n_routed_experts")
    config.ignore("scoring_func", "topk_method")
    without_prediction(config)
    for key in ("q_lora_rank", "norm_topk_prob", "rope_interleave"):
        if config.stated_null(key):
            raise config.error(f"{key} null is not supported", "leave it out, or state a value")
    attention = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    norm, routed = rmsnorm(config), by_types(config, lambda: after_first_in_steps(config))
    networks = some_routed(config, routed, lambda: deepseek_experts(config, out_norm=norm))
    return decoder(config, norm, networks([{"kind": "pre_norm", "attention": attention}] * len(routed)))
