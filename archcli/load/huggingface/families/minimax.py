"""MiniMax-01 and M1: lightning attention, some softmax attention, experts."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.load import huggingface as hf
from archcli.load.huggingface import Auxiliary, Config, ConfigValue, Family, Mapped, Parts, Weights
from archcli.load.huggingface.weights.hybrid import first_norms


def _lightning_decoder(
    config: Config, kinds: Sequence[str], position: Mapped | ConfigValue[Mapped]
) -> Mapped:
    """Experts after each mixer; the residual branches off after the norm, and both terms have factors."""
    config.only("shared_intermediate_size", 0, default=0)
    config.ignore("shared_moe_mode", "router_jitter_noise")
    ffn = hf.experts(config, width="intermediate_size")
    softmax = hf.attention(config, hf.head_dim(config), window=hf.window(config), position=position)
    layers = {
        hf.FULL: {"attention": softmax, "ffn": ffn, **_factors(config, "full_attn")},
        hf.LINEAR: {"mixer": _lightning(config), "ffn": ffn, **_factors(config, "linear_attn")},
    }
    blocks = {kind: {"kind": "normed_stream", **layer} for kind, layer in layers.items()}
    return hf.decoder(config, hf.rmsnorm(config), hf.by_kind(kinds, blocks))


def _factors(config: Config, place: str) -> Mapped:
    """The factors of the residual stream and of a sublayer's output; a factor of 1 is left out."""
    keys = {
        "alpha": f"{place}_alpha_factor",
        "beta": f"{place}_beta_factor",
        "ffn_alpha": "mlp_alpha_factor",
        "ffn_beta": "mlp_beta_factor",
    }
    factors = {field: hf.positive(config, key) for field, key in keys.items()}
    return {field: factor for field, factor in factors.items() if factor != 1.0}


def _lightning(config: Config) -> Mapped:
    """Lightning attention; its norm has an eps of 1e-6, whatever the file says."""
    return {
        "kind": "lightning",
        "n_heads": config.size("num_attention_heads"),
        "head_dim": hf.head_dim(config),
        "chunk": config.size("block_size"),
        "activation": hf.activation(config, "hidden_act"),
    }


LIGHTNING = "[model.]layers.*.self_attn"
CONSTANT = Auxiliary("decays, computed from the layer and the head")


def _names_of_kinds(config: Config, kinds: Sequence[str]) -> Weights:
    """Names of both kinds of layer; queries, keys and values of a head follow each other in one matrix."""
    fused = tuple(f"layers.*.mixer.{which}_proj.weight" for which in "qkv")
    keys = ["attention" if kind == hf.FULL else "mixer" for kind in kinds]
    return {
        **{name: rule for name, rule in hf.LLAMA.items() if ".input_layernorm." not in name},
        **hf.EXPERTS,
        **hf.MIXTRAL_EXPERTS,
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


def _minimax(config: Config) -> Mapped:
    """Softmax and lightning attention by layer_types, or in turn; RoPE on whole heads."""
    config.ignore("postnorm")
    width = hf.head_dim(config)
    rotated = config.optional_size("rotary_dim")
    if rotated is not None and rotated != width:
        config.note("rotary_dim is not read by the class, which turns the whole width of a head")
    return _lightning_decoder(config, _minimax_kinds(config), hf.rope(config, width, theta=1e6))


def _minimax_kinds(config: Config) -> list[str]:
    return hf.kinds_of_layers(
        config, [(hf.FULL, hf.LINEAR)[i % 2] for i in range(config.layers())], (hf.FULL, hf.LINEAR)
    )


def _minimax_weights(config: Config) -> Weights:
    """Names of both kinds of layer."""
    return _names_of_kinds(config, _minimax_kinds(config))


MINIMAX_01_FACTORS = {
    **{
        f"{place}_attn_{factor}_factor": f"layernorm_{place}_attention_{factor}"
        for place in ("full", "linear")
        for factor in ("alpha", "beta")
    },
    **{f"mlp_{factor}_factor": f"layernorm_mlp_{factor}" for factor in ("alpha", "beta")},
}
KIND_OF = {0: hf.LINEAR, 1: hf.FULL}
"""What the numbers of attn_type_list mean."""


def _minimax_01(config: Config) -> Mapped:
    """Softmax and lightning attention by attn_type_list; RoPE on rotary_dim of each head."""
    config.only("postnorm", True, default=False)
    rotated = config.optional_size("rotary_dim")
    turns_all = rotated is None or rotated.value == hf.head_dim(config).value
    position = {
        "kind": "rope",
        "theta": config.number("rope_theta"),
        "rotary_dim": None if turns_all else rotated,
    }
    return _lightning_decoder(config, _minimax_01_kinds(config), hf.without_none(position))


def _minimax_01_kinds(config: Config) -> list[str]:
    numbers = config.per_layer("attn_type_list", config.layers())
    if numbers is None:
        raise config.error("key 'attn_type_list' is missing", "it has 0 for linear attention, 1 for softmax")
    unknown = [number for number in numbers if number not in KIND_OF]
    if unknown:
        what = f"attn_type_list {hf.short_repr(unknown[0])} is not supported"
        raise config.error(what, "known: 0, linear attention, and 1, softmax", config.place("attn_type_list"))
    return [KIND_OF[number] for number in numbers]


def _minimax_01_weights(config: Config) -> Weights:
    """Names of both kinds of layer."""
    return _names_of_kinds(config, _minimax_01_kinds(config))


FAMILIES = {
    "minimax": Family(
        "MiniMax-01, lightning attention and some softmax attention: MiniMaxConfig and MiniMaxForCausalLM.",
        _minimax,
        _minimax_weights,
        aliases={"num_experts": "num_local_experts"},
    ),
    **dict.fromkeys(
        ("minimax_text_01", "minimax_m1"),
        Family(
            "MiniMax-01 and M1 in their own files: MiniMaxText01Config and MiniMaxM1Config.",
            _minimax_01,
            _minimax_01_weights,
            aliases={"num_experts": "num_local_experts", **MINIMAX_01_FACTORS},
            defaults={"rope_theta": 1e6},
            defaults_of="minimax",
        ),
    ),
}
