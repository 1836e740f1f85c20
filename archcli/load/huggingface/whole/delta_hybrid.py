"""Decoders of gated delta nets and, in some layers, attention: Qwen3-Next, Qwen 3.5 and their kin."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, PER_HEAD, attention, head_dim
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.parts.recurrent import LINEAR, kinds_of_layers
from archcli.load.huggingface.parts.rope import rope
from archcli.load.huggingface.weights.hybrid import of_layers
from archcli.load.huggingface.weights.map import Auxiliary, Parts, Weights
from archcli.load.huggingface.weights.names import EXPERTS, LLAMA, QK_NORM, SHARED

LAYER = "[model.]layers.*"
PREDICTION = "multi-token prediction, which no class of transformers holds"


def delta_net(config: Config, eps: float | ConfigValue[float]) -> Mapped:
    """A gated delta net by the keys of Qwen3-Next; `eps` is that of its output's norm."""
    return {
        "kind": "gated_delta_net",
        "n_key_heads": config.size("linear_num_key_heads"),
        "n_value_heads": config.size("linear_num_value_heads"),
        "key_head_dim": config.size("linear_key_head_dim"),
        "value_head_dim": config.size("linear_value_head_dim"),
        "conv_kernel": config.size("linear_conv_kernel_dim"),
        "activation": activation(config, "hidden_act"),
        "norm": {"kind": "rmsnorm", "gate": "after", "eps": eps},
    }


def kinds(config: Config) -> list[str]:
    """The mixer of each layer: `layer_types`, or attention in every full_attention_interval-th."""
    if config.get("layer_types", default=None) is not None:
        config.ignore("full_attention_interval")
        return kinds_of_layers(config, [FULL] * config.layers(), (LINEAR, FULL))
    interval = config.size("full_attention_interval", default=4).value
    return [LINEAR if (index + 1) % interval else FULL for index in range(config.layers())]


def qwen_layers(config: Config) -> list[Mapped]:
    """The layers of Qwen3-Next without feed-forward parts: delta nets, and attention with an output gate."""
    config.only("attn_output_gate", True, default=True)
    for silu in ("swish", "silu"):
        config.restated(output_gate_type=silu)
    config.ignore("mamba_ssm_dtype", "mtp_use_dedicated_embeddings")
    if config.count("mtp_num_hidden_layers", default=0):
        config.note("layers of multi-token prediction (mtp_num_hidden_layers) are not counted")
    width, bias = head_dim(config), config.flag("attention_bias")
    attend = attention(
        config,
        width,
        bias=bias,
        position=rope(config, width, partial=0.25),
        qk_norm=PER_HEAD,
        output_gate={"projection_bias": bias} if bias else {},
    )
    layers: dict[str, Mapped] = {
        LINEAR: {"kind": "pre_norm", "mixer": delta_net(config, config.number("rms_norm_eps"))},
        FULL: {"kind": "pre_norm", "attention": attend},
    }
    return [layers[kind] for kind in kinds(config)]


ATTENTION: Weights = {
    f"{LAYER}.input_layernorm.weight": "layers.*.attention_norm.weight",
    **{f"{LAYER}.self_attn.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "kvo"},
    **QK_NORM,
}
DELTA: Weights = {
    f"{LAYER}.linear_attn.conv1d.weight": Parts(
        tuple(f"layers.*.mixer.{name}_conv.weight" for name in "qkv")
    ),
    **{f"{LAYER}.linear_attn.{name}": f"layers.*.mixer.decay.{name}" for name in ("dt_bias", "A_log")},
}
"""What is called the same wherever there is a gated delta net."""

QWEN_DELTA: Weights = {
    **DELTA,
    f"{LAYER}.input_layernorm.weight": "layers.*.mixer_norm.weight",
    f"{LAYER}.linear_attn.norm.weight": "layers.*.mixer.norm.weight",
    f"{LAYER}.linear_attn.out_proj.weight": "layers.*.mixer.o_proj.weight",
}
QWEN3_5_PROJECTIONS: Weights = {
    f"{LAYER}.linear_attn.in_proj_qkv.weight": Parts(
        tuple(f"layers.*.mixer.{name}_proj.weight" for name in "qkv")
    ),
    **{
        f"{LAYER}.linear_attn.in_proj_{theirs}.weight": f"layers.*.mixer.{ours}_proj.weight"
        for theirs, ours in (("z", "g"), ("b", "b"), ("a", "a"))
    },
}
ELSEWHERE: Weights = {
    **{name: rule for name, rule in LLAMA.items() if ".self_attn." not in name and ".input_" not in name},
    "mtp.**": Auxiliary(PREDICTION),
}
"""Names outside of mixers, which are Llama's."""

MIXTURE: Weights = {
    **EXPERTS,
    **SHARED,
    f"{LAYER}.mlp.shared_expert_gate.weight": "layers.*.ffn.shared_gate.weight",
}


def by_kind(kinds_of: Sequence[str], linear: Weights, full: Weights) -> Weights:
    """Names of layers with a gated delta net, and of those with attention."""
    return {
        name: rule
        for kind, names in ((LINEAR, linear), (FULL, full))
        for name, rule in of_layers(names, [i for i, here in enumerate(kinds_of) if here == kind]).items()
    }


def qwen_weights(config: Config, projections: Weights) -> Weights:
    """The names of Qwen3-Next's kind, with these of its delta nets' projections.

    The gates of attention lie behind the queries of each head.
    """
    gates = tuple(f"layers.*.attention.{name}_proj.*" for name in ("q", "gate"))
    queries: Weights = {
        f"{LAYER}.self_attn.q_proj.*": Parts(gates, groups=config.size("num_attention_heads").value)
    }
    layers = by_kind(kinds(config), {**QWEN_DELTA, **projections}, {**ATTENTION, **queries})
    return {**ELSEWHERE, **layers}
