"""Encoders of sounds: wav2vec 2.0's convolutions of a wave, and Conformer layers by Parakeet's words."""

from __future__ import annotations

from math import sqrt
from typing import Any

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.networks import activation, layernorm, mlp
from archcli.load.huggingface.weights.map import Rule
from archcli.load.huggingface.whole.vit_like import labels, vit_like

FRONT = "front_end"
"""What a front end is called in the names of its tensors."""
NO_SIZE = (
    "hidden_dropout activation_dropout attention_dropout feat_proj_dropout feat_quantizer_dropout "
    "final_dropout layerdrop feat_extract_dropout apply_spec_augment mask_time_length mask_time_min_masks "
    "mask_feature_length mask_feature_min_masks num_codevectors_per_group num_codevector_groups "
    "contrastive_logits_temperature num_negatives codevector_dim proj_codevector_dim diversity_loss_weight "
    "ctc_loss_reduction ctc_zero_infinity use_weighted_layer_sum classifier_proj_size tdnn_dim tdnn_kernel "
    "tdnn_dilation xvector_output_dim adapter_kernel_size adapter_stride num_adapter_layers "
    "output_hidden_size gradient_checkpointing num_feat_extract_layers conv_pos_batch_norm"
)
"""Keys that change no count and no feature of a plain forward, in one text."""


def sizes(config: Config, name: str) -> ConfigValue[list[int]]:
    """A list of sizes, one for each convolution."""
    entry = config.value(name)
    if not isinstance(entry.value, list | tuple) or not entry.value:
        raise config.error(f"{name} must be a list, not {short_repr(entry.value)}", at=entry.place)
    return entry.derive([config.as_size(name, entry.derive(size)).value for size in entry.value])


def wave(config: Config, norm: Mapped, *, stable: bool) -> Mapped:
    """The convolutions of a wave; with `stable` no norm follows the positions."""
    kind = config.value("feat_extract_norm", default="layer")
    normalized = {"group": "first", "layer": "every"}.get(str(kind.value))
    if normalized is None:
        raise config.error(f"feat_extract_norm {kind.value!r} is not supported", at=kind.place)
    projects = config.flag("feat_proj_layer_norm", default=True).value
    return {
        "kind": "convolved_wave",
        "channels": sizes(config, "conv_dim"),
        "kernels": sizes(config, "conv_kernel"),
        "strides": sizes(config, "conv_stride"),
        "bias": config.flag("conv_bias"),
        "normalized": normalized,
        "activation": activation(config, "feat_extract_activation", "hidden_act"),
        "input_norm": norm if projects else None,
        "position_kernel": config.size("num_conv_pos_embeddings"),
        "position_groups": config.size("num_conv_pos_embedding_groups"),
        "norm": None if stable else norm,
    }


def wave_ends(config: Config) -> Mapped:
    """What follows the layers in the file's class, and the vector of masked positions, read by no pass."""
    ends: Mapped = {}
    if config.architecture.endswith("CTC"):
        ends = {"n_labels": config.size("vocab_size")}
    elif config.architecture.endswith("Classification"):
        config.only("use_weighted_layer_sum", False, default=False)
        ends = {"pooling": {"kind": "mean", "width": config.size("classifier_proj_size")}, **labels(config)}
    masks = max(config.number(f"mask_{what}_prob", default=0.0).value for what in ("time", "feature")) > 0
    return {**ends, **({"unread": {"masked_spec_embed": config.size("hidden_size")}} if masks else {})}


def wave_names(config: Config, within: str) -> dict[str, Rule]:
    """Names of the convolutions of a wave, of convolved positions, and of the heads."""
    names: dict[str, Rule] = {}
    for i in range(len(sizes(config, "conv_dim").value)):
        theirs = f"{within}feature_extractor.conv_layers.{i}"
        names |= {
            f"{theirs}.conv.*": f"{FRONT}.conv{i}.*",
            f"{theirs}.layer_norm.*": f"{FRONT}.conv{i}_norm.*",
        }
    places = f"{within}encoder.pos_conv_embed.conv"
    return {
        **names,
        f"{within}masked_spec_embed": "masked_spec_embed.weight",
        f"{places}.bias": f"{FRONT}.positions.bias",
        f"{places}.parametrizations.weight.original0": f"{FRONT}.positions.gain",
        f"{places}.parametrizations.weight.original1": f"{FRONT}.positions.direction",
        f"{places}.weight_g": f"{FRONT}.positions.gain",
        f"{places}.weight_v": f"{FRONT}.positions.direction",
        "lm_head.*": "classifier.*",
        "projector.*": "pooling.dense.*",
        "classifier.*": "classifier.*",
    }


RELATIVE: Mapped = {"kind": "transformer_xl", "spare_distance": False, "pairing": "interleaved"}
"""Attention with positions of Transformer-XL."""
DROPPED = "dropout dropout_positions layerdrop activation_dropout attention_dropout max_position_embeddings"
"""Keys of training, and of positions that are computed as far as needed, in one text."""
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
    """Conformer layers by the words of Parakeet; `block` of `more` are fields of a layer."""
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
