"""Decoders of Mamba-1 mixers, and such mixers by the keys of Mamba and of Jamba."""

from __future__ import annotations

from math import ceil
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped, without_none
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.weights.map import Parts, Weights

CHANNELS_PER_RANK = 16
"""dt_rank "auto" is d_model / 16, rounded up."""

JAMBA = {
    "state_size": "mamba_d_state",
    "conv_kernel": "mamba_d_conv",
    "expand": "mamba_expand",
    "time_step_rank": "mamba_dt_rank",
    "use_conv_bias": "mamba_conv_bias",
    "use_bias": "mamba_proj_bias",
}
"""Mamba's keys, and those of Jamba and Zamba for them."""

UNREAD = (
    "rescale_prenorm_residual",
    "residual_in_fp32",
    "time_step_floor",
    "time_step_init_scheme",
    "time_step_max",
    "time_step_min",
    "time_step_scale",
    "use_associative_scan",
    "use_mamba_kernels",
    "use_mambapy",
)
"""Keys that choose an implementation, a number type or initial values."""


def mamba(config: Config, d_inner: ConfigValue[int] | None = None, **more: Any) -> Mapped:
    """A Mamba-1 mixer; `d_inner` left out is `expand` times hidden_size."""
    config.ignore(*UNREAD)
    hidden = config.size("hidden_size")
    if d_inner is None:
        expand = config.size("expand")
        d_inner = expand.derive(expand.value * hidden.value)
    rank = config.value("time_step_rank")
    automatic = rank.derive(ceil(hidden.value / CHANNELS_PER_RANK))
    return without_none(
        {
            "kind": "mamba",
            "d_inner": d_inner,
            "state": config.size("state_size"),
            "dt_rank": automatic if rank == "auto" else config.as_size("time_step_rank", rank),
            "conv_kernel": config.size("conv_kernel"),
            "conv_bias": config.flag("use_conv_bias"),
            "bias": config.flag("use_bias"),
            "activation": activation(config, "hidden_act"),
            **more,
        }
    )


def mamba_only(config: Config, **more: Any) -> Mapped:
    """A whole decoder of Mamba-1 mixers alone; `more` are fields of the mixer.

    A file's intermediate_size, which no class has, is the mixer's width.
    """
    config.ignore("d_model", "n_layer", "rms_norm", "ssm_cfg", "fused_add_norm", "pad_vocab_size_multiple")
    mixer = mamba(config, config.optional_size("intermediate_size"), **more)
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    layer = {"kind": "pre_norm", "mixer": mixer}
    return decoder(config, norm, [layer] * config.layers())


def mixer_weights(theirs: str, ours: str = "layers.*.mixer") -> Weights:
    """Weight names of a Mamba-1 mixer under these prefixes."""
    same = ("x_proj.weight", "dt_proj.weight", "dt_proj.bias", "out_proj.*")
    return {
        f"{theirs}.in_proj.*": Parts((f"{ours}.in_proj.*", f"{ours}.gate_proj.*")),
        f"{theirs}.conv1d.*": f"{ours}.conv.*",
        f"{theirs}.A_log": f"{ours}.scan.A_log",
        f"{theirs}.D": f"{ours}.scan.D",
        **{f"{theirs}.{name}": f"{ours}.{name}" for name in same},
    }


MAMBA_WEIGHTS: Weights = {
    "[backbone.]embeddings.weight": "embedding.tokens.weight",
    "[backbone.]layers.*.norm.weight": "layers.*.mixer_norm.weight",
    **mixer_weights("[backbone.]layers.*.mixer"),
    "[backbone.]norm_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
"""The names of Mamba and of Falcon Mamba."""
