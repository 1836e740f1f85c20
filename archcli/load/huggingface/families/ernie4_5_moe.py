"""ERNIE 4.5 with experts: Ernie4_5_MoeConfig and Ernie4_5_MoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts, shared_experts, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, SHARED

MODEL_TYPES = ("ernie4_5_moe",)
OWN = {"moe_layer_end_index": -1}
ROUTER = {"correction": True, "correction_is": "parameter"}
LEAST_NORM = 1e-6
"""Weights of the chosen experts that sum to less are not met."""


def mapping(config: Config) -> Mapped:
    """As dense ERNIE 4.5, with routed and shared experts in some layers, chosen with a correction bias."""
    config = config.of_class(OWN, num_experts="moe_num_experts", num_experts_per_tok="moe_k")
    if config.number("moe_norm_min").value > LEAST_NORM:
        what = f"moe_norm_min above {LEAST_NORM} is not supported"
        raise config.error(what, at=config.place("moe_norm_min"))
    bias, width = config.flag("use_bias"), head_dim(config)
    attend = attention(config, width, bias=bias, position=rope(config, width, pairing="interleaved"))
    layer = {"kind": "pre_norm", "attention": attend}
    expert = gated(config, width="moe_intermediate_size")

    def sparse() -> Mapped:
        shared = shared_experts(
            config, gated(config, width="moe_intermediate_size", bias=bias), key="moe_num_shared_experts"
        )
        return experts(config, expert=expert, router=ROUTER, shared=shared)

    routed = _routed(config)
    layers = with_networks([layer] * len(routed), routed, lambda: gated(config, bias=bias), sparse)
    return decoder(config, rmsnorm(config), layers, tied=True, head={"bias": bias} if bias else None)


def _routed(config: Config) -> list[bool]:
    """Which layers have experts: each moe_layer_interval-th, from the first to the last with any."""
    count, step = config.layers(), config.size("moe_layer_interval").value
    first, last = (int(config.number(f"moe_layer_{end}_index").value) for end in ("start", "end"))
    last = count - 1 if last == -1 else last
    return [(index + 1) % step == 0 and first <= index <= last for index in range(count)]


WEIGHTS: Weights = {
    **LLAMA,
    **EXPERTS,
    **SHARED,
    **{
        f"[model.]layers.*.mlp.{gate}moe_statics.e_score_correction_bias": Parts(
            ("layers.*.ffn.correction.weight",), flat=True
        )
        for gate in ("", "gate.")
    },
}
