"""Bamba: BambaConfig and BambaForCausalLM."""

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import gated, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, bamba_mixer, hybrid_layers, mamba2_names
from archcli.load.huggingface.parts.rope import position, stated
from archcli.load.huggingface.weights.hybrid import INPUT_NORMS, by_kinds
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("bamba",)
OWN = {"mamba_d_head": "auto"}
UNREAD = """
    attn_rotary_emb num_logits_to_keep z_loss_coefficient partial_rotary_factor rope_theta rope_parameters
    rope_scaling
"""
"""Keys that the class does not read, or for layers of attention alone, of which there may be none."""


def mapping(config: Config) -> Mapped:
    """Mamba-2 layers, those that attn_layer_indices names of attention; RoPE turns half of each head."""
    config = config.of_class(OWN)
    config.ignore(*UNREAD.split())
    mixers = {
        FULL: lambda: {"attention": _attention(config)},
        LINEAR: lambda: {"mixer": bamba_mixer(config)},
    }
    ffn = gated(config, bias=config.flag("mlp_bias"))
    return decoder(config, rmsnorm(config), hybrid_layers(_kinds(config), mixers, ffn=ffn))


def _attention(config: Config) -> Mapped:
    width, half = head_dim(config), {"partial_rotary_factor": ConfigValue(0.5, config.places.start)}
    turned = position(config, width, {**half, **stated(config)}, partial=0.5)
    return attention(config, width, bias=config.flag("attention_bias"), position=turned)


def _kinds(config: Config) -> list[str]:
    """The kind of each layer; where attn_layer_indices is null or empty, none has attention."""
    indices = config.get("attn_layer_indices", default=[])
    if not isinstance(indices, list):
        what = f"attn_layer_indices must be a list of whole numbers, not {short_repr(indices)}"
        raise config.error(what, at=config.place("attn_layer_indices"))
    return [FULL if index in indices else LINEAR for index in range(config.layers())]


LAYER = "[model.]layers.*"
EVERYWHERE: Weights = {
    **{name: rule for name, rule in LLAMA.items() if "norm" not in name and ".mlp." not in name},
    f"{LAYER}.pre_ff_layernorm.weight": "layers.*.ffn_norm.weight",
    **{
        f"{LAYER}.feed_forward.{name}_proj.*": f"layers.*.ffn.{name}_proj.*"
        for name in ("gate", "up", "down")
    },
    **mamba2_names(f"{LAYER}.mamba"),
    "[model.]final_layernorm.weight": "final_norm.weight",
}


def weights(config: Config) -> Weights:
    """The names of layers of either kind."""
    return {**EVERYWHERE, **by_kinds(_kinds(config.of_class(OWN)), INPUT_NORMS)}
