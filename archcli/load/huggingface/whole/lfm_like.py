"""Decoders of Liquid's kind: short convolutions, and attention in some layers."""

from __future__ import annotations

from collections.abc import Sequence

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.attention import FULL, PER_HEAD, attention, head_dim
from archcli.load.huggingface.parts.decoder import decoder
from archcli.load.huggingface.parts.recurrent import CONVOLUTION
from archcli.load.huggingface.weights.hybrid import by_kinds
from archcli.load.huggingface.weights.map import Weights
from archcli.load.huggingface.weights.names import LLAMA

LFM_KINDS = (FULL, CONVOLUTION)
"""What `layer_types` may say."""


def short_convolution(config: Config) -> Mapped:
    """The short convolution; conv_bias biases its projections as well."""
    biased = config.flag("conv_bias")
    biases = {"bias": biased, "conv_bias": biased} if biased else {}
    return {"kind": "short_conv", "conv_kernel": config.size("conv_L_cache"), **biases}


def tied(config: Config) -> ConfigValue[bool]:
    """Whether the head is tied; `tie_embedding` of older files overrules tie_word_embeddings."""
    config.ignore("tie_embedding", "tie_word_embeddings")
    return config.flag("tie_embedding" if "tie_embedding" in config.data else "tie_word_embeddings")


def lfm_like(config: Config, kinds: Sequence[str], ffns: Sequence[Mapped]) -> Mapped:
    """Pre-norm layers of these kinds with these feed-forward parts; queries and keys normalized by head."""
    made: dict[tuple[str, int], Mapped] = {}
    for kind, ffn in zip(kinds, ffns, strict=True):
        if (kind, id(ffn)) not in made:
            made[kind, id(ffn)] = {"kind": "pre_norm", **_mixing(config, kind), "ffn": ffn}
    layers = [made[kind, id(ffn)] for kind, ffn in zip(kinds, ffns, strict=True)]
    norm = {"kind": "rmsnorm", "eps": config.number("norm_eps")}
    return decoder(config, norm, layers, embedding={"tied": tied(config)})


def _mixing(config: Config, kind: str) -> Mapped:
    if kind == CONVOLUTION:
        return {"mixer": short_convolution(config)}
    return {"attention": attention(config, head_dim(config), qk_norm=PER_HEAD)}


LAYER = "[model.]layers.*"
OURS = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
DENSE: Weights = {
    f"{LAYER}.feed_forward.{theirs}.*": f"layers.*.ffn.{ours}.*" for theirs, ours in OURS.items()
}
EVERYWHERE: Weights = {
    **{name: LLAMA[name] for name in ("[model.]embed_tokens.weight", "lm_head.*")},
    "[model.]embedding_norm.weight": "final_norm.weight",
    f"{LAYER}.ffn_norm.weight": "layers.*.ffn_norm.weight",
    **{f"{LAYER}.self_attn.{name}_proj.*": f"layers.*.attention.{name}_proj.*" for name in "qkv"},
    f"{LAYER}.self_attn.out_proj.*": "layers.*.attention.o_proj.*",
    **{f"{LAYER}.self_attn.{name}_layernorm.*": f"layers.*.attention.{name}_norm.*" for name in "qk"},
    **{f"{LAYER}.conv.{name}.*": f"layers.*.mixer.{name}.*" for name in ("conv", "in_proj", "out_proj")},
    **DENSE,
}


def lfm_weights(kinds: Sequence[str], norm: str = "operator_norm", ours: str = "norm") -> Weights:
    """The names of all layers, the norms of which are called by the key of their mixer."""
    names: dict[str, Weights] = {
        kind: {f"{LAYER}.{norm}.weight": f"layers.*.{step}_{ours}.weight"}
        for kind, step in ((CONVOLUTION, "mixer"), (FULL, "attention"))
    }
    return {**EVERYWHERE, **by_kinds(kinds, names)}
