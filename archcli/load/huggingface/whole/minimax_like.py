"""Decoders of lightning attention and some softmax attention, with experts: MiniMax-01 and M1."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, attention, head_dim, positive, window
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.experts import experts
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.parts.recurrent import LINEAR, by_kind
from archcli.load.huggingface.weights.hybrid import first_norms
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, MIXTRAL_EXPERTS


def minimax_like(config: Config, kinds: Sequence[str], position: Mapped | ConfigValue[Mapped]) -> Mapped:
    """Experts after each mixer; the residual is taken after the norm, and both are multiplied."""
    config.only("shared_intermediate_size", 0, default=0)
    config.ignore("shared_moe_mode", "router_jitter_noise")
    ffn = experts(config, width="intermediate_size")
    softmax = attention(config, head_dim(config), window=window(config), position=position)
    layers = {
        FULL: {"attention": softmax, "ffn": ffn, **_factors(config, "full_attn")},
        LINEAR: {"mixer": _lightning(config), "ffn": ffn, **_factors(config, "linear_attn")},
    }
    blocks = {kind: {"kind": "normed_stream", **layer} for kind, layer in layers.items()}
    return decoder(config, rmsnorm(config), by_kind(kinds, blocks))


def _factors(config: Config, place: str) -> Mapped:
    """The factors of the stream and of what a sublayer adds; 1 is left out."""
    keys = {
        "alpha": f"{place}_alpha_factor",
        "beta": f"{place}_beta_factor",
        "ffn_alpha": "mlp_alpha_factor",
        "ffn_beta": "mlp_beta_factor",
    }
    factors = {field: positive(config, key) for field, key in keys.items()}
    return {field: factor for field, factor in factors.items() if factor != 1.0}


def _lightning(config: Config) -> Mapped:
    """Lightning attention, whose norm the class makes with an eps of 1e-6 whatever the file says."""
    function = activation(config, "hidden_act")
    return {
        "kind": "lightning",
        "n_heads": config.size("num_attention_heads"),
        "head_dim": head_dim(config),
        "chunk": config.size("block_size"),
        "activation": function,
    }


LIGHTNING = "[model.]layers.*.self_attn"
CONSTANT = Auxiliary("decays, computed from the layer and the head")
"""What the class stores and computes anew."""


def minimax_weights(config: Config, kinds: Sequence[str]) -> Weights:
    """Names of both kinds of layer; queries, keys and values of a head follow each other in one matrix."""
    fused = tuple(f"layers.*.mixer.{which}_proj.weight" for which in "qkv")
    keys = ["attention" if kind == FULL else "mixer" for kind in kinds]
    return {
        **{name: rule for name, rule in LLAMA.items() if ".input_layernorm." not in name},
        **EXPERTS,
        **MIXTRAL_EXPERTS,
        **first_norms("[model.]layers.*.input_layernorm.weight", keys),
        f"{LIGHTNING}.qkv_proj.weight": Parts(fused, groups=config.size("num_attention_heads").value),
        f"{LIGHTNING}.output_gate.weight": "layers.*.mixer.g_proj.weight",
        f"{LIGHTNING}.out_proj.weight": "layers.*.mixer.o_proj.weight",
        f"{LIGHTNING}.norm.weight": "layers.*.mixer.norm.weight",
        **{
            f"{LIGHTNING}.{name}": CONSTANT
            for name in ("slope_rate", "query_decay", "key_decay", "diagonal_decay")
        },
    }
