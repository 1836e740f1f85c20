"""Conformer audio encoders, by the keys of Parakeet's config."""

from __future__ import annotations

from math import sqrt
from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import activation, layernorm, mlp
from archcli.wings.media.huggingface.whole.vit_like import vit_like

RELATIVE: Mapped = {"kind": "transformer_xl", "spare_distance": False, "pairing": "interleaved"}
"""Attention with relative positions as in Transformer-XL (arXiv:1901.02860)."""
DROPPED = "dropout dropout_positions layerdrop activation_dropout attention_dropout max_position_embeddings"
"""Unread keys: of training, and the length of a position table that is computed as long as needed."""
PARAKEET: Mapped = {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "intermediate_size": 4096,
    "hidden_act": "silu",
    "attention_bias": True,
    "convolution_bias": True,
    "conv_kernel_size": 9,
    "subsampling_factor": 8,
    "subsampling_conv_channels": 256,
    "num_mel_bins": 80,
    "subsampling_conv_kernel_size": 3,
    "subsampling_conv_stride": 2,
    "scale_input": True,
}


def conformer(inner: Config, front_end: Mapped, attention: Mapped, norm: Mapped, **more: Any) -> Mapped:
    """An encoder of Conformer layers by Parakeet's keys; `block` in `more` has fields of a layer."""
    biased = inner.flag("attention_bias")
    ffn = mlp(inner, inner.size("intermediate_size"), "hidden_act", bias=biased)
    block, convolution = more.pop("block", {}), more.pop("convolution", {})
    light = {
        "kernel": inner.size("conv_kernel_size"),
        "bias": inner.flag("convolution_bias"),
        "conv_bias": inner.flag("convolution_bias"),
        "activation": activation(inner, "hidden_act"),
        **convolution,
    }
    return vit_like(
        inner,
        front_end,
        norm=norm,
        ffn=ffn,
        attention={"bias": biased, **attention},
        layer={"kind": "conformer", "convolution": light, **block},
        **more,
    )


def parakeet(inner: Config) -> Mapped:
    """Parakeet's encoder (FastConformer): separable convolutions shorten a spectrogram eightfold."""
    factor, stride = inner.size("subsampling_factor"), inner.size("subsampling_conv_stride")
    layers = factor.value.bit_length() - 1
    if factor.value != 1 << layers or not layers or stride.value != 2:  # noqa: PLR2004 as the class counts
        raise inner.error(f"subsampling_factor {factor} is no power of 2", at=factor.place)
    kernel, mels = inner.size("subsampling_conv_kernel_size"), inner.size("num_mel_bins")
    if kernel.value % 2 == 0 or mels.value % factor.value:
        raise inner.error(f"num_mel_bins {mels} is no multiple of subsampling_factor", at=mels.place)
    front_end = {
        "kind": "subsampled_spectrogram",
        "n_mels": mels,
        "channels": [inner.size("subsampling_conv_channels").value] * layers,
        "kernel": kernel,
        "separable": True,
    }
    if inner.flag("scale_input").value:
        front_end["scale"] = sqrt(inner.size("hidden_size").value)
    kernel = inner.size("conv_kernel_size")
    if kernel.value % 2 == 0:
        raise inner.error(f"conv_kernel_size {kernel} is even", at=kernel.place)
    return conformer(inner, front_end, RELATIVE, layernorm(1e-5), final_norm=False)
