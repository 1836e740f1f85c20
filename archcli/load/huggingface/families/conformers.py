"""Encoders of sounds with Conformer layers: wav2vec 2.0's, w2v-BERT 2.0, Parakeet, LASR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Family, Mapped, Parts, Rule, Weights
from archcli.load.huggingface.whole.vit_like import labels, vit_like
from archcli.load.huggingface.whole.wave_like import (
    DROPPED,
    FRONT,
    NO_SIZE,
    PARAKEET,
    RELATIVE,
    conformer,
    parakeet,
    sizes,
    wave,
)

POSITIONS: Mapping[str, Mapped] = {"relative": RELATIVE}
"""Attention by position_embeddings_type; null means no positions."""
TRAINING = "conformer_conv_dropout rotary_embedding_base max_source_positions"
"""Keys of training, and of positions that are computed as far as needed."""
CTC = ("ctc_loss_reduction", "ctc_zero_infinity", "pad_token_id", "initializer_range")
STACKED_RATE = 50
"""Frames of a second where two lie side by side."""


def _positions(config: Config, **more: Mapped) -> Mapped:
    """Attention by the kind of its positions; rotary ones are refused, as they turn tokens, not queries."""
    if config.stated_null("position_embeddings_type"):
        return {}
    kind, known = config.value("position_embeddings_type"), {**POSITIONS, **more}
    if str(kind.value) not in known:
        raise config.error(f"position_embeddings_type {kind.value!r} is not supported", at=kind.place)
    return known[str(kind.value)]


def _ends(config: Config, prefix: str) -> Mapped:
    """What follows the layers of a class: a matrix to labels, or nothing."""
    config.only_architectures(f"{prefix}Model", f"{prefix}ForCTC", f"{prefix}ForSequenceClassification")
    config.ignore(*NO_SIZE.split(), *TRAINING.split(), "vocab_size")
    config.only("add_adapter", False, default=False)
    if config.architecture.endswith("CTC"):
        return {"n_labels": config.size("vocab_size")}
    if config.architecture.endswith("Classification"):
        config.only("use_weighted_layer_sum", False, default=False)
        return {"pooling": {"kind": "mean", "width": config.size("classifier_proj_size")}, **labels(config)}
    return {}


def _masked(config: Config) -> Mapped:
    """The vector of what is masked in training, where there is masking."""
    masks = max(config.number(f"mask_{what}_prob", default=0.0).value for what in ("time", "feature")) > 0
    return {"masked_spec_embed": config.size("hidden_size")} if masks else {}


def _depthwise(config: Config) -> ConfigValue[int]:
    """The kernel of depthwise convolutions, which is odd."""
    kernel = config.size("conv_depthwise_kernel_size")
    if kernel.value % 2 == 0:
        raise config.error(f"conv_depthwise_kernel_size {kernel} is even", at=kernel.place)
    return kernel


def _wav2vec2_conformer(config: Config) -> Mapped:
    """wav2vec 2.0's convolutions, then Conformer layers; convolved positions are stored and not read."""
    ends, final = _ends(config, "Wav2Vec2Conformer"), hf.layernorm(config.number("layer_norm_eps"))
    taps, width = config.size("num_conv_pos_embeddings"), config.size("hidden_size")
    part = width.value // config.size("num_conv_pos_embedding_groups").value
    front_end = wave(config, final, stable=True)
    idle = {
        "positions_gain": [1, 1, taps.value],
        "positions_direction": [width.value, part, taps.value],
        "positions_bias": width,
    }
    convolution = {"kernel": _depthwise(config), "activation": hf.activation(config, "hidden_act")}
    return vit_like(
        config,
        {**front_end, "position_kernel": None},
        norm=final,
        attention=_positions(config),
        layer={"kind": "conformer", "convolution": convolution, "norm": hf.layernorm(1e-5)},
        unread={**_masked(config), **idle},
        **ends,
    )


def _wav2vec2_bert(config: Config) -> Mapped:
    """w2v-BERT 2.0: normalized frames, causal convolutions, a vector for each near distance."""
    ends, norm = _ends(config, "Wav2Vec2Bert"), hf.layernorm(config.number("layer_norm_eps"))
    config.only("use_intermediate_ffn_before_adapter", False, default=False)
    config.ignore("adapter_act")
    front_end = {
        "kind": "frames",
        "n_mels": config.size("feature_projection_input_dim"),
        "rate": STACKED_RATE,
        "norm": norm,
    }
    near = {
        "kind": "relative_vector",
        "left": config.count("left_max_position_embeddings"),
        "right": config.count("right_max_position_embeddings"),
    }
    convolution = {
        "kernel": _depthwise(config),
        "causal": True,
        "norm": norm,
        "activation": hf.activation(config, "hidden_act"),
    }
    held = _masked(config)
    return vit_like(
        config,
        front_end,
        norm=norm,
        attention=_positions(config, relative_key={"position": near}),
        layer={"kind": "conformer", "convolution": convolution},
        final_norm=False,
        **({"unread": held} if held else {}),
        **ends,
    )


LASR: Mapped = {
    "hidden_size": 512,
    "num_hidden_layers": 17,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "hidden_act": "silu",
    "attention_bias": False,
    "convolution_bias": False,
    "conv_kernel_size": 32,
    "subsampling_conv_channels": 256,
    "num_mel_bins": 128,
    "subsampling_conv_kernel_size": 5,
    "subsampling_conv_stride": 2,
    "layer_norm_eps": 1e-6,
    "feed_forward_residual_weights": [1.5, 0.5],
    "conv_residual_weights": [2.0, 1.0],
    "batch_norm_momentum": 0.01,
}


def _inner(config: Config, name: str, defaults: Mapped, kind: str) -> tuple[Config, Mapped]:
    """The config of the encoder that a CTC class holds, and the labels that follow it."""
    config.only_architectures(name)
    config.ignore(*CTC)
    inner = config.inner("encoder_config", defaults)
    inner.ignore("model_type", "initializer_range", "num_key_value_heads", *DROPPED.split())
    if inner.get("model_type", default=kind) != kind:
        raise config.error(f"an encoder_config other than {kind} is not supported")
    return inner, {"n_labels": config.size("vocab_size")}


def _parakeet(config: Config) -> Mapped:
    """Parakeet (FastConformer): its encoder with labels."""
    inner, ends = _inner(config, "ParakeetForCTC", PARAKEET, "parakeet_encoder")
    encoder = parakeet(inner)
    inner.report_unread_keys()
    return {**encoder, **ends}


def _pair(inner: Config, key: str) -> list[float]:
    """Two factors above 0."""
    entry = inner.value(key)
    pair = entry.value if isinstance(entry.value, list | tuple) else ()
    if [hf.is_number(factor) and factor > 0 for factor in pair] != [True, True]:
        raise inner.error(f"{key} must be a pair of numbers above 0", at=entry.place)
    return [float(factor) for factor in pair]


def _lasr(config: Config) -> Mapped:
    """LASR: projected frames, rotary positions, weights of the stream beside those of what is added."""
    inner, ends = _inner(config, "LasrForCTC", LASR, "lasr_encoder")
    rope = inner.get("rope_parameters", default=None) or {}
    if not isinstance(rope, dict) or rope.get("rope_type", "default") != "default":
        raise config.error("rope_parameters other than default are not supported")
    theta = rope.get("rope_theta", 10000.0)
    front_end = {
        "kind": "projected_frames",
        "n_mels": inner.size("num_mel_bins"),
        "channels": inner.size("subsampling_conv_channels"),
        "kernel": inner.size("subsampling_conv_kernel_size"),
        "stride": inner.size("subsampling_conv_stride"),
    }
    norm = hf.layernorm(inner.number("layer_norm_eps"), bias=False)
    momentum = inner.number("batch_norm_momentum")
    encoder = conformer(
        inner,
        front_end,
        {"position": {"kind": "rope", "theta": theta}},
        norm,
        convolution={"longer": "after", "norm": {"kind": "batchnorm", "momentum": momentum}},
        block={
            "network_weights": _pair(inner, "feed_forward_residual_weights"),
            "convolution_weights": _pair(inner, "conv_residual_weights"),
        },
    )
    inner.report_unread_keys()
    return hf.without_none({**encoder, **ends})


def _fused(which: str, *, bias: bool) -> Parts:
    """The first pointwise convolution, which holds both branches of the gate."""
    names = tuple(f"layers.*.convolution.{name}_proj.{which}" for name in ("up", "gate"))
    return Parts(names, tapped=not bias)


def _wave_like(base: str) -> Any:
    """A function of a file that gives the names of tensors of wav2vec 2.0's Conformers."""
    return lambda config: _wave_names(config, base)


def _wave_ends(config: Config, within: str) -> Weights:
    """Names of the convolutions of a wave, and of positions that are not read."""
    names: dict[str, Rule] = {}
    for i in range(len(sizes(config, "conv_dim").value)):
        names[f"{within}feature_extractor.conv_layers.{i}.conv.*"] = f"{FRONT}.conv{i}.*"
        names[f"{within}feature_extractor.conv_layers.{i}.layer_norm.*"] = f"{FRONT}.conv{i}_norm.*"
    places = f"{within}encoder.pos_conv_embed.conv"
    return {
        **names,
        f"{places}.bias": "positions_bias.weight",
        f"{places}.parametrizations.weight.original0": "positions_gain.weight",
        f"{places}.parametrizations.weight.original1": "positions_direction.weight",
        f"{places}.weight_g": "positions_gain.weight",
        f"{places}.weight_v": "positions_direction.weight",
        f"{within}feature_projection.layer_norm.*": f"{FRONT}.input_norm.*",
        f"{within}encoder.layer_norm.*": "final_norm.*",
    }


def _wave_names(config: Config, base: str) -> Weights:
    """Names of wav2vec 2.0's Conformers: of convolutions where it has them, and of layers."""
    within, ours = f"[{base}.]", "layers.*"
    layers, conv = f"{within}encoder.layers.*", f"{within}encoder.layers.*.conv_module"
    frames: Weights = {f"{within}feature_projection.layer_norm.*": f"{FRONT}.norm.*"}
    return {
        **(_wave_ends(config, within) if base == "wav2vec2_conformer" else frames),
        f"{within}masked_spec_embed": "masked_spec_embed.weight",
        f"{within}feature_projection.projection.*": f"{FRONT}.project.*",
        **{f"{layers}.self_attn.linear_{n}.*": f"{ours}.attention.{n}_proj.*" for n in "qkv"},
        f"{layers}.self_attn.linear_out.*": f"{ours}.attention.o_proj.*",
        f"{layers}.self_attn.linear_pos.weight": f"{ours}.attention.r_proj.weight",
        f"{layers}.self_attn.pos_bias_u": f"{ours}.attention.content_bias.weight",
        f"{layers}.self_attn.pos_bias_v": f"{ours}.attention.distance_bias.weight",
        f"{layers}.self_attn.distance_embedding.weight": f"{ours}.attention.relative_vectors.weight",
        f"{layers}.ffn1.intermediate_dense.*": f"{ours}.first_ffn.up_proj.*",
        f"{layers}.ffn1.output_dense.*": f"{ours}.first_ffn.down_proj.*",
        f"{layers}.ffn2.intermediate_dense.*": f"{ours}.ffn.up_proj.*",
        f"{layers}.ffn2.output_dense.*": f"{ours}.ffn.down_proj.*",
        f"{layers}.ffn1_layer_norm.*": f"{ours}.first_ffn_norm.*",
        f"{layers}.ffn2_layer_norm.*": f"{ours}.ffn_norm.*",
        f"{layers}.self_attn_layer_norm.*": f"{ours}.attention_norm.*",
        f"{layers}.final_layer_norm.*": f"{ours}.final_norm.*",
        f"{conv}.layer_norm.*": f"{ours}.convolution_norm.*",
        f"{conv}.pointwise_conv1.weight": _fused("weight", bias=False),
        f"{conv}.pointwise_conv2.weight": Parts((f"{ours}.convolution.down_proj.weight",), tapped=True),
        f"{conv}.depthwise_conv.*": f"{ours}.convolution.conv.*",
        f"{conv}.batch_norm.*": f"{ours}.convolution.norm.*",
        f"{conv}.depthwise_layer_norm.*": f"{ours}.convolution.norm.*",
        "lm_head.*": "classifier.*",
        "projector.*": "pooling.dense.*",
        "classifier.*": "classifier.*",
    }


THEIRS, OURS = "encoder.layers.*", "layers.*"
PARAKEET_LAYERS: Weights = {
    **{f"{THEIRS}.self_attn.{n}_proj.*": f"{OURS}.attention.{n}_proj.*" for n in "qkvo"},
    **{
        f"{THEIRS}.feed_forward{i}.linear{j}.*": f"{OURS}.{ours}.{to}_proj.*"
        for i, ours in ((1, "first_ffn"), (2, "ffn"))
        for j, to in ((1, "up"), (2, "down"))
    },
    f"{THEIRS}.norm_feed_forward1.*": f"{OURS}.first_ffn_norm.*",
    f"{THEIRS}.norm_self_att.*": f"{OURS}.attention_norm.*",
    f"{THEIRS}.norm_conv.*": f"{OURS}.convolution_norm.*",
    f"{THEIRS}.norm_feed_forward2.*": f"{OURS}.ffn_norm.*",
    f"{THEIRS}.norm_out.*": f"{OURS}.final_norm.*",
    f"{THEIRS}.conv.pointwise_conv1.weight": _fused("weight", bias=False),
    f"{THEIRS}.conv.pointwise_conv1.bias": _fused("bias", bias=True),
    f"{THEIRS}.conv.pointwise_conv2.weight": Parts((f"{OURS}.convolution.down_proj.weight",), tapped=True),
    f"{THEIRS}.conv.pointwise_conv2.bias": f"{OURS}.convolution.down_proj.bias",
    f"{THEIRS}.conv.depthwise_conv.*": f"{OURS}.convolution.conv.*",
    f"{THEIRS}.conv.norm.*": f"{OURS}.convolution.norm.*",
    "ctc_head.weight": Parts(("classifier.weight",), tapped=True),
    "ctc_head.bias": "classifier.bias",
}


def _parakeet_names(config: Config) -> Weights:
    """Names of Parakeet, whose convolutions stand in one list with their activations."""
    inner = config.inner("encoder_config", PARAKEET)
    names: dict[str, Rule] = {"encoder.subsampling.layers.0.*": f"{FRONT}.conv0.*"}
    for i in range(1, inner.size("subsampling_factor").value.bit_length() - 1):
        names[f"encoder.subsampling.layers.{3 * i - 1}.*"] = f"{FRONT}.conv{i}.*"
        names[f"encoder.subsampling.layers.{3 * i}.*"] = f"{FRONT}.pointwise{i}.*"
    return {
        **PARAKEET_LAYERS,
        **names,
        "encoder.subsampling.linear.*": f"{FRONT}.project.*",
        f"{THEIRS}.self_attn.relative_k_proj.weight": f"{OURS}.attention.r_proj.weight",
        f"{THEIRS}.self_attn.bias_u": f"{OURS}.attention.content_bias.weight",
        f"{THEIRS}.self_attn.bias_v": f"{OURS}.attention.distance_bias.weight",
    }


LASR_NAMES: Weights = {
    **PARAKEET_LAYERS,
    "encoder.subsampler.dense_0.*": f"{FRONT}.in_proj.*",
    "encoder.subsampler.conv_0.*": f"{FRONT}.conv1.*",
    "encoder.subsampler.conv_1.*": f"{FRONT}.conv2.*",
    "encoder.subsampler.dense_1.*": f"{FRONT}.project.*",
    "encoder.out_norm.*": "final_norm.*",
}

FAMILIES = {
    "wav2vec2-conformer": Family(
        "wav2vec 2.0 with Conformer layers: Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel, "
        "Wav2Vec2ConformerForCTC.",
        _wav2vec2_conformer,
        _wave_like("wav2vec2_conformer"),
    ),
    "wav2vec2-bert": Family(
        "w2v-BERT 2.0: Wav2Vec2BertConfig, Wav2Vec2BertModel, Wav2Vec2BertForCTC.",
        _wav2vec2_bert,
        _wave_like("wav2vec2_bert"),
    ),
    "parakeet_ctc": Family(
        "Parakeet (FastConformer): ParakeetCTCConfig, ParakeetForCTC.", _parakeet, _parakeet_names
    ),
    "lasr_ctc": Family("LASR (MedASR): LasrCTCConfig, LasrForCTC.", _lasr, LASR_NAMES),
}
