"""Liquid's LFM2 with experts: Lfm2MoeConfig and Lfm2MoeForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.recurrent import kinds_of_layers
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.whole.lfm_like import LAYER, LFM_KINDS, OURS, lfm_like, lfm_weights

MODEL_TYPES = ("lfm2_moe",)


def mapping(config: Config) -> Mapped:
    """Short convolutions and layers of attention; after the first, experts chosen by sigmoid scores."""
    config = config.of_class()
    dense, routed = {"kind": "glu", "d_ff": config.size("intermediate_size")}, _experts(config)
    if config.get("layer_types", default=None) is None:
        raise config.error("key 'layer_types' is missing", "the class of this model has no default for it")
    first, kinds = config.count("num_dense_layers").value, _kinds(config)
    return lfm_like(config, kinds, [routed if index >= first else dense for index in range(len(kinds))])


def _kinds(config: Config) -> list[str]:
    """The kind of each layer."""
    return kinds_of_layers(config, [FULL] * config.layers(), LFM_KINDS)


def _experts(config: Config) -> Mapped:
    router = {
        "scores": "sigmoid",
        "normalized": config.flag("norm_topk_prob"),
        "scale": config.number("routed_scaling_factor"),
        "correction": config.flag("use_expert_bias"),
    }
    expert = {"kind": "glu", "d_ff": config.size("moe_intermediate_size")}
    return experts(config, expert=expert, router=router)


ROUTED: Weights = {
    f"{LAYER}.feed_forward.gate.weight": "layers.*.ffn.router.weight",
    f"{LAYER}.feed_forward.expert_bias": "layers.*.ffn.route.correction_bias",
    **{
        f"{LAYER}.feed_forward.experts.#.{theirs}.weight": f"layers.*.ffn.experts.{ours}.weight"
        for theirs, ours in OURS.items()
    },
    f"{LAYER}.feed_forward.experts.gate_up_proj": Parts(
        ("layers.*.ffn.experts.gate_proj.weight", "layers.*.ffn.experts.up_proj.weight"), axis=1
    ),
    f"{LAYER}.feed_forward.experts.down_proj": "layers.*.ffn.experts.down_proj.weight",
}


def weights(config: Config) -> Weights:
    """The names of layers of either kind, some with experts."""
    return {**lfm_weights(_kinds(config.of_class())), **ROUTED}
