"""Decoders of Mamba mixers alone: Mamba, Falcon Mamba, Mamba-2, and files of mamba_ssm."""

from __future__ import annotations

from math import ceil
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Weights
from archcli.load.huggingface.whole.mamba_like import (
    CHANNELS_PER_RANK,
    MAMBA_WEIGHTS,
    mamba_only,
    mixer_weights,
)


def _mamba(config: Config) -> Mapped:
    """Pre-norm, RMSNorm, a Mamba-1 mixer in every layer and no feed-forward network."""
    return mamba_only(config)


def _falcon_mamba(config: Config) -> Mapped:
    """As Mamba, with RMSNorm without weights on the step sizes, B and C."""
    config.ignore("use_falcon_mambapy")
    eps = config.number("mixer_rms_eps")
    return mamba_only(config, dt_norm={"kind": "rmsnorm", "eps": eps, "weight": False})


MAMBA2_KEYS = hf.Mamba2Keys(
    "num_heads",
    "head_dim",
    "state_size",
    "n_groups",
    "conv_kernel",
    "chunk_size",
    "use_bias",
    "use_conv_bias",
    "hidden_act",
    "layer_norm_epsilon",
)
MAMBA2_UNREAD = """
    residual_in_fp32 rescale_prenorm_residual time_step_rank time_step_min time_step_max time_step_floor
    norm_before_gate rms_norm max_position_embeddings
"""
"""Keys of how weights are initialized, and keys that the class does not read."""


def _mamba2(config: Config) -> Mapped:
    """Layers of a Mamba-2 mixer alone; its gated norm has as many groups as B and C."""
    config.ignore(*MAMBA2_UNREAD.split())
    width = hf.mixer_width(config, MAMBA2_KEYS, hf.expanded(config, "expand"))
    layer = {
        "kind": "pre_norm",
        "mixer": hf.mamba2(config, MAMBA2_KEYS, width, step_limit=hf.step_limit(config)),
    }
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    return hf.decoder(config, norm, [layer] * config.layers())


MAMBA2_WEIGHTS: Weights = {
    **{f"[backbone.]embedding{plural}.weight": "embedding.tokens.weight" for plural in ("", "s")},
    "[backbone.]layers.*.norm.weight": "layers.*.mixer_norm.weight",
    **hf.mamba2_names("[backbone.]layers.*.mixer"),
    "[backbone.]norm_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}


MAMBA_SSM_DEFAULTS = {
    "d_model": 2560,
    "d_intermediate": 0,
    "n_layer": 64,
    "vocab_size": 50277,
    "pad_vocab_size_multiple": 8,
    "rms_norm": True,
    "tie_embeddings": True,
}
MAMBA_SSM_ALIASES = {
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layer",
    "tie_word_embeddings": "tie_embeddings",
}
MIXER: Mapped = {"d_conv": 4, "expand": 2, "conv_bias": True, "bias": False}
MIXERS: dict[str, Mapped] = {
    "Mamba1": {**MIXER, "d_state": 16, "dt_rank": "auto"},
    "Mamba2": {**MIXER, "d_state": 128, "headdim": 64, "ngroups": 1, "chunk_size": 256},
}
"""Defaults of the classes Mamba and Mamba2 for keys of `ssm_cfg`."""

PLAIN_MAMBA2 = {"d_ssm": None, "D_has_hdim": False, "rmsnorm": True, "norm_before_gate": False}
"""The only values of these keys of `ssm_cfg` that are supported."""
SSM_UNREAD = """
    A_init_range conv_init dt_init dt_init_floor dt_limit dt_max dt_min dt_scale
    use_fast_path use_mem_eff_path
"""
# norm_epsilon of MixerModel in mamba_ssm's mixer_seq_simple.py, which no key of a file states
MAMBA_SSM_EPS = 1e-5


def _mamba_ssm(config: Config) -> Mapped:
    """Layers of a mixer alone; the vocabulary is padded to a multiple.

    Files name no class; it is MambaLMHeadModel.
    """
    config.ignore("residual_in_fp32", "fused_add_norm", "attn_cfg")
    config.only("d_intermediate", 0)
    config.only("attn_layer_idx", [], default=[])
    vocab_size, multiple = config.size("vocab_size"), config.size("pad_vocab_size_multiple").value
    padded = vocab_size.derive(-(-vocab_size.value // multiple) * multiple)
    norm = {"kind": "rmsnorm" if config.flag("rms_norm") else "layernorm", "eps": MAMBA_SSM_EPS}
    layer = {"kind": "pre_norm", "mixer": _mamba_ssm_mixer(config)}
    return hf.decoder(config, norm, [layer] * config.layers(), vocab_size=padded)


def _mamba_ssm_mixer(config: Config) -> Mapped:
    """The mixer of each layer, by `ssm_cfg`."""
    kind = _kind(config)
    ssm = config.inner("ssm_cfg", MIXERS[kind])
    ssm.ignore("layer", *SSM_UNREAD.split())
    mixer = _mamba2_mixer(config, ssm) if kind == "Mamba2" else _mamba1_mixer(config, ssm)
    ssm.report_unread_keys()
    bias = ssm.flag("bias")
    shared = {"conv_kernel": ssm.size("d_conv"), "conv_bias": ssm.flag("conv_bias")}
    return hf.without_none({**mixer, "state": ssm.size("d_state"), **shared, "bias": bias or None})


def _kind(config: Config) -> str:
    ssm = config.inner("ssm_cfg", {"layer": "Mamba1"})
    ssm.only("layer", *MIXERS)
    return str(ssm.get("layer"))


def _inner(config: Config, ssm: Config) -> ConfigValue[int]:
    """The channels of a mixer."""
    width = config.size("d_model")
    return width.derive(ssm.size("expand").value * width.value)


def _mamba1_mixer(config: Config, ssm: Config) -> dict[str, Any]:
    rank = ssm.value("dt_rank")
    automatic = rank.derive(ceil(config.size("d_model").value / CHANNELS_PER_RANK))
    dt_rank = automatic if rank == "auto" else ssm.as_size("dt_rank", rank)
    return {"kind": "mamba", "d_inner": _inner(config, ssm), "dt_rank": dt_rank}


def _mamba2_mixer(config: Config, ssm: Config) -> dict[str, Any]:
    for key, value in PLAIN_MAMBA2.items():
        ssm.only(key, value, default=value)
    inner, width, groups = _inner(config, ssm), ssm.size("headdim"), ssm.size("ngroups")
    if inner.value % width.value:
        raise ssm.error(f"heads of headdim {width} do not make a width of {inner}", at=width.place)
    sizes = {"head_dim": width, "n_groups": groups, "chunk": ssm.size("chunk_size")}
    norm = {"kind": "rmsnorm", "eps": MAMBA_SSM_EPS, "groups": groups}
    return {"kind": "mamba2", "n_heads": inner.derive(inner.value // width.value), **sizes, "norm": norm}


def _mamba_ssm_weights(config: Config) -> Weights:
    """Weight names, by the kind of mixer."""
    mixer = "[backbone.]layers.*.mixer"
    return {
        "[backbone.]embedding.weight": "embedding.tokens.weight",
        "[backbone.]layers.*.norm.*": "layers.*.mixer_norm.*",
        **(hf.mamba2_names(mixer) if _kind(config) == "Mamba2" else mixer_weights(mixer)),
        "[backbone.]norm_f.*": "final_norm.*",
        "lm_head.weight": "lm_head.weight",
    }


FAMILIES = {
    "mamba": Family(
        "Mamba, layers of a selective state space alone: MambaConfig and MambaForCausalLM.",
        _mamba,
        MAMBA_WEIGHTS,
        defaults={"time_step_rank": "auto"},
    ),
    "falcon_mamba": Family(
        "Falcon Mamba, Mamba with norms inside its mixers: FalconMambaConfig and FalconMambaForCausalLM.",
        _falcon_mamba,
        MAMBA_WEIGHTS,
        defaults={"time_step_rank": "auto"},
    ),
    "mamba2": Family("Mamba-2: Mamba2Config and Mamba2ForCausalLM.", _mamba2, MAMBA2_WEIGHTS),
    "mamba_ssm": Family(
        "Mamba and Mamba-2 in the files of mamba_ssm: its MambaConfig, which has no model_type.",
        _mamba_ssm,
        _mamba_ssm_weights,
        aliases=MAMBA_SSM_ALIASES,
        defaults=MAMBA_SSM_DEFAULTS,
        headed=("",),
    ),
}
