"""Google's RecurrentGemma, Griffin: RecurrentGemmaConfig and RecurrentGemmaForCausalLM."""

from struct import pack, unpack

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.attention import attention, head_dim, positive
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation, rmsnorm
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.hybrid import first_norms
from archcli.load.huggingface.weights.map import Parts, Weights
from archcli.load.huggingface.weights.names import LLAMA

MODEL_TYPES = ("recurrent_gemma",)
RECURRENT = "recurrent"


def mapping(config: Config) -> Mapped:
    """Pre-norm, RMSNorm of weights stored minus one, GeGLU of half the stated width, RG-LRU and windows.

    Embeddings are scaled by sqrt(d_model) in bf16.
    """
    config = config.of_class()
    config.ignore("w_init_variance_scale", "final_w_init_variance_scale", "layer_types", "_block_types")
    config.ignore("attentions_pattern", "embeddings_scale_by_sqrt_dim")  # of older files
    blocks = {True: {"mixer": _rg_lru(config)}, False: {"attention": _attention(config)}}
    ffn = _network(config)
    layers = {kind: {"kind": "pre_norm", **block, "ffn": ffn} for kind, block in blocks.items()}
    width = config.size("hidden_size")
    return decoder(
        config,
        rmsnorm(config, offset=1),
        [layers[kind] for kind in _recurrent(config)],
        embedding={"scale": width.derive(_bfloat16(width.value**0.5))},
        head={"softcap": positive(config, "logits_soft_cap")},
    )


def _recurrent(config: Config) -> list[bool]:
    """Of each layer, whether it is recurrent: block_types are repeated as often as needed."""
    kinds = config.value("block_types")
    if not isinstance(kinds.value, list) or not kinds.value:
        what = f"block_types must be a list of kinds of layers, not {short_repr(kinds.value)}"
        raise config.error(what, at=kinds.place)
    return [kinds.value[index % len(kinds.value)] == RECURRENT for index in range(config.layers())]


def _rg_lru(config: Config) -> Mapped:
    return {
        "kind": "rg_lru",
        "width": config.size("lru_width", default=config.size("hidden_size")),
        "n_blocks": config.size("num_attention_heads"),
        "conv_kernel": config.size("conv1d_width"),
        "activation": activation(config, "hidden_activation"),
    }


def _attention(config: Config) -> Mapped:
    width = head_dim(config)
    bias = config.flag("attention_bias")
    return attention(
        config,
        width,
        bias=bias or ["o"],
        position=rope(config, width, partial=0.5),
        window=config.size("attention_window_size", "sliding_window"),
    )


def _network(config: Config) -> Mapped:
    width = config.size("intermediate_size")
    return {
        "kind": "glu",
        "d_ff": width.derive(width.value // 2),
        "activation": activation(config, "hidden_activation"),
        "bias": True,
    }


def _bfloat16(number: float) -> float:
    """The number as bf16 holds it: the upper half of its 32 bits, rounded to the nearest, halves to even."""
    (bits,) = unpack("<I", pack("<f", number))
    rounded = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    (nearest,) = unpack("<f", pack("<I", rounded))
    return float(nearest)


LAYER = "[model.]layers.*"
BLOCK = f"{LAYER}.temporal_block"
GATES = ("input_gate", "recurrent_gate")
SHARED: Weights = {
    **{name: LLAMA[name] for name in ("[model.]embed_tokens.weight", "lm_head.*")},
    "[model.]final_norm.weight": "final_norm.weight",
    **{f"{BLOCK}.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkvo"},
    f"{BLOCK}.linear_x.*": "layers.*.mixer.in_proj.*",
    f"{BLOCK}.linear_y.*": "layers.*.mixer.gate_proj.*",
    f"{BLOCK}.linear_out.*": "layers.*.mixer.out_proj.*",
    f"{BLOCK}.conv_1d.*": "layers.*.mixer.conv.*",
    f"{BLOCK}.rg_lru.recurrent_param": "layers.*.mixer.decay.Lambda",
    **{
        f"{BLOCK}.rg_lru.{name}_weight": Parts((f"layers.*.mixer.{name}.weight",), transposed=True)
        for name in GATES
    },
    **{f"{BLOCK}.rg_lru.{name}_bias": f"layers.*.mixer.{name}.bias" for name in GATES},
    f"{LAYER}.channel_pre_norm.weight": "layers.*.ffn_norm.weight",
    **{f"{LAYER}.mlp_block.{name}_proj.*": f"layers.*.ffn.{name}_proj.*" for name in ("gate", "up", "down")},
}
"""Names that all layers share; those of matrices that no layer has are found in no file."""


def weights(config: Config) -> Weights:
    """Weight names; a layer's first norm is called by the key of its mixer."""
    keys = ["mixer" if found else "attention" for found in _recurrent(config.of_class())]
    return {**SHARED, **first_norms(f"{LAYER}.temporal_pre_norm.weight", keys)}
