"""Granite 4: GraniteMoeHybridConfig and GraniteMoeHybridForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import FULL
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import gated
from archcli.load.huggingface.parts.recurrent import LINEAR, bamba_mixer, kinds_of_layers, mamba2_names
from archcli.load.huggingface.weights.hybrid import INPUT_NORMS, by_kinds
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import GRANITE_EXPERTS, LLAMA
from archcli.load.huggingface.whole.llama_like import granite_like

MODEL_TYPES = ("granitemoehybrid",)
OWN = {"mlp_bias": False, "mamba_d_head": "auto"}
UNREAD = "normalization_function init_method num_logits_to_keep rope_theta rope_parameters rope_scaling"
"""Keys that the class does not read, or for layers with RoPE alone, of which there may be none."""


def mapping(config: Config) -> Mapped:
    """As Granite, most layers of Mamba-2; experts with a shared one, or where there are none that alone."""
    config = config.of_class(OWN, num_experts="num_local_experts")
    config.ignore(*UNREAD.split())
    heads = {"bias": config.flag("attention_bias"), "scale": config.number("attention_multiplier")}
    if config.get("position_embedding_type", default=None) != "rope":
        heads["position"] = {"kind": "none"}
    kinds = _kinds(config)

    def networks(layers: list[Mapped]) -> list[Mapped]:
        rest = {key: value for key, value in layers[0].items() if key != "attention"}
        made = {FULL: layers[0]}
        if LINEAR in kinds:
            made[LINEAR] = {**rest, "mixer": bamba_mixer(config)}
        return [made[kind] for kind in kinds]

    return granite_like(config, heads=heads, ffn=_ffn(config), networks=networks)


def _kinds(config: Config) -> list[str]:
    """The kind of each layer, by default Mamba-2."""
    key = "layer_types" if config.data.get("layer_types") is not None else "layers_block_type"
    config.ignore("layer_types", "layers_block_type")
    return kinds_of_layers(config, [LINEAR] * config.layers(), (FULL, LINEAR), key)


def _ffn(config: Config) -> Mapped:
    shared = gated(config, width="shared_intermediate_size")
    if not config.count("num_local_experts"):
        return shared
    return experts(config, width="intermediate_size", router={"scores": "softmax_after"}, shared=shared)


SHARED = "[model.]layers.*.shared_mlp"
ALONE: Weights = {
    f"{SHARED}.input_linear.weight": Parts(("layers.*.ffn.gate_proj.weight", "layers.*.ffn.up_proj.weight")),
    f"{SHARED}.output_linear.weight": "layers.*.ffn.down_proj.weight",
}
"""The shared expert of a model that has no others."""

EVERYWHERE: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".input_layernorm." not in name},
    **mamba2_names("[model.]layers.*.mamba"),
}


def weights(config: Config) -> Weights:
    """The names of layers of either kind, with experts or without."""
    config = config.of_class(OWN)
    ffn = GRANITE_EXPERTS if config.count("num_local_experts") else ALONE
    return {**EVERYWHERE, **ffn, **by_kinds(_kinds(config), INPUT_NORMS)}
