"""Mellum 2: MellumConfig and MellumForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, PER_HEAD, SLIDING, head_dim
from archcli.load.huggingface.parts.experts import by_types, experts, normalized_by, some_routed
from archcli.load.huggingface.parts.rope import rope_of_type
from archcli.load.huggingface.weights.map import Auxiliary, Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, PREDICTION, QK_NORM
from archcli.load.huggingface.whole.llama_like import llama_like

MODEL_TYPES = ("mellum",)
ROPES = {FULL: {"rope_theta": 500000.0}, SLIDING: {"rope_theta": 10000.0}}


def mapping(config: Config) -> Mapped:
    """As Qwen 3 with experts; layers with a window have a RoPE of their own."""
    config = config.of_class(num_experts="num_local_experts")
    config.ignore("mtp_layer_types", "mtp_mlp_layer_types")
    if config.get("num_nextn_predict_layers", "num_mtp_layers", default=0):
        config.note("layers of multi-token prediction are not counted: the class holds none")
    width, bias = head_dim(config), config.flag("attention_bias")

    def heads(window: ConfigValue[int] | None) -> Mapped:
        place = rope_of_type(config, width, SLIDING if window else FULL, ROPES)
        return {"bias": bias, "qk_norm": PER_HEAD, "position": place}

    routed = by_types(config, lambda: [True] * config.layers())
    networks = some_routed(config, routed, lambda: experts(config, router=normalized_by(config)))
    return llama_like(config, heads=heads, networks=networks, slides=lambda _: False)


WEIGHTS: Weights = {**LLAMA, **EXPERTS, **QK_NORM, "mtp.**": Auxiliary(PREDICTION)}
