"""Encoders of waves of wav2vec 2.0's kind: convolutions of a wave, and the keys of their training."""

from __future__ import annotations

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped
from archcli.load.huggingface.parts.networks import activation
from archcli.load.huggingface.whole.vit_like import labels

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
