"""Mamba-2: Mamba2Config and Mamba2ForCausalLM."""

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.recurrent import (
    Mamba2Keys,
    expanded,
    mamba2,
    mamba2_names,
    mixer_width,
    step_limit,
)
from archcli.load.huggingface.weights.map import Weights

MODEL_TYPES = ("mamba2",)
KEYS = Mamba2Keys(
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
UNREAD = """
    residual_in_fp32 rescale_prenorm_residual time_step_rank time_step_min time_step_max time_step_floor
    norm_before_gate rms_norm max_position_embeddings
"""
"""Of the first values of weights, and keys that the class does not read."""


def mapping(config: Config) -> Mapped:
    """Layers of a mixer alone, whose gated norm has as many groups as B and C."""
    config = config.of_class()
    config.ignore(*UNREAD.split())
    width = mixer_width(config, KEYS, expanded(config, "expand"))
    layer = {"kind": "pre_norm", "mixer": mamba2(config, KEYS, width, step_limit=step_limit(config))}
    norm = {"kind": "rmsnorm", "eps": config.number("layer_norm_epsilon")}
    return decoder(config, norm, [layer] * config.layers())


WEIGHTS: Weights = {
    **{f"[backbone.]embedding{plural}.weight": "embedding.tokens.weight" for plural in ("", "s")},
    "[backbone.]layers.*.norm.weight": "layers.*.mixer_norm.weight",
    **mamba2_names("[backbone.]layers.*.mixer"),
    "[backbone.]norm_f.weight": "final_norm.weight",
    "lm_head.weight": "lm_head.weight",
}
