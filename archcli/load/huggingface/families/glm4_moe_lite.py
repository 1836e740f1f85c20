"""GLM-4.7-Flash: Glm4MoeLiteConfig and Glm4MoeLiteForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import latent_attention
from archcli.load.huggingface.parts.decoder import decoder, multi_token_prediction
from archcli.load.huggingface.parts.experts import by_types, deepseek_experts, some_routed
from archcli.load.huggingface.parts.networks import rmsnorm
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import CORRECTED, EXPERTS, LLAMA, MLA, SHARED, prediction_layers

MODEL_TYPES = ("glm4_moe_lite",)
ALIASES = {"num_experts": "n_routed_experts", "num_local_experts": "n_routed_experts"}


def mapping(config: Config) -> Mapped:
    """As DeepSeek-V3; the first layer is dense where mlp_layer_types names none."""
    config = config.of_class(**ALIASES)
    config.ignore("first_k_dense_replace", "moe_layer_freq", "scoring_func", "topk_method")
    attention = latent_attention(config, "interleaved" if config.flag("rope_interleave") else "half")
    layer, routed = {"kind": "pre_norm", "attention": attention}, by_types(config, lambda: _usual(config))
    layers = some_routed(config, routed, lambda: deepseek_experts(config))([layer] * len(routed))
    mtp = multi_token_prediction(config, lambda: {**layer, "ffn": deepseek_experts(config)}, alike=routed[-1])
    return decoder(config, rmsnorm(config), layers, mtp=mtp)


def _usual(config: Config) -> list[bool]:
    return [index > 0 for index in range(config.layers())]


def weights(config: Config) -> Weights:
    """The names of DeepSeek-V3."""
    config = config.of_class(**ALIASES)
    predicting = prediction_layers(config.layers(), config.count("num_nextn_predict_layers", default=0).value)
    return {**LLAMA, **MLA, **EXPERTS, **SHARED, **CORRECTED, **predicting}
