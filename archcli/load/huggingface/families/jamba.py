"""AI21's Jamba, Mamba layers with some of attention and of experts: JambaConfig and JambaForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts, with_networks
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.weights.hybrid import first_norms
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA
from archcli.load.huggingface.whole.mamba_like import JAMBA, mamba, mixer_weights

MODEL_TYPES = ("jamba",)
OWN = {"mamba_dt_rank": "auto"}


def mapping(config: Config) -> Mapped:
    """Pre-norm, Mamba-1 with norms inside, attention without positions, SwiGLU or experts of its width."""
    config = config.of_class(OWN, **JAMBA)
    config.only("mamba_inner_layernorms", True, default=True)
    config.ignore("calc_logits_for_entire_prompt", "num_logits_to_keep", "sliding_window")
    norm, count = rmsnorm(config), config.layers()
    mixers = {
        True: {"attention": attention(config, head_dim(config), position={"kind": "none"})},
        False: {"mixer": mamba(config, dt_norm=norm)},
    }
    blocks = {attends: {"kind": "pre_norm", **mixer} for attends, mixer in mixers.items()}
    layers = [blocks[attends] for attends in _every(config, "attn_layer", count)]
    routed = [
        found and config.size("num_experts").value > 1 for found in _every(config, "expert_layer", count)
    ]
    layers = with_networks(layers, routed, lambda: gated(config), lambda: _experts(config))
    return decoder(config, norm, layers)


def _every(config: Config, name: str, count: int) -> list[bool]:
    """Of each layer, whether it is one of those that come once in a period."""
    period, offset = config.size(f"{name}_period"), config.count(f"{name}_offset")
    if offset.value >= period.value:
        what = f"{name}_offset {offset} must be smaller than {name}_period {period}"
        raise config.error(what, at=offset.place)
    return [index % period.value == offset.value for index in range(count)]


def _experts(config: Config) -> Mapped:
    return experts(config, width="intermediate_size", router={"normalized": False})


LAYER = "[model.]layers.*"
SHARED: Weights = {
    **{
        name: rule
        for name, rule in LLAMA.items()
        if name.startswith(("[model.]embed", "lm_head", "[model.]layers.*.self_attn."))
    },
    **{
        name.replace(".mlp.gate.", ".mlp.router.").replace(".mlp.", ".feed_forward."): rule
        for name, rule in {**LLAMA, **EXPERTS}.items()
        if ".mlp." in name
    },
    "[model.]final_layernorm.weight": "final_norm.weight",
    f"{LAYER}.pre_ff_layernorm.weight": "layers.*.ffn_norm.weight",
    **mixer_weights(f"{LAYER}.mamba"),
    **{
        f"{LAYER}.mamba.{name}_layernorm.weight": f"layers.*.mixer.{name}_norm.weight"
        for name in ("dt", "b", "c")
    },
}
"""Names that all layers share."""


def weights(config: Config) -> Weights:
    """Weight names; a layer's first norm is called by the key of its mixer."""
    config = config.of_class(OWN, **JAMBA)
    attends = _every(config, "attn_layer", config.layers())
    keys = ["attention" if found else "mixer" for found in attends]
    return {**SHARED, **first_norms(f"{LAYER}.input_layernorm.weight", keys)}
