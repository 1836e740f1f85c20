"""Vision and audio towers of Gemma 4 (ViT, Conformer) and Nemotron Omni (RADIO, Parakeet)."""

from __future__ import annotations

from typing import Any

from archcli.errors import ArchError
from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.source import TowerSource, linear, merged
from archcli.wings.media.huggingface.whole.vit_like import patches, qkv_biases, vit_like
from archcli.wings.media.huggingface.whole.wave_like import DROPPED, parakeet

NO_FIGURE = (
    "use_clipped_linears",
    "attention_invalid_logits_value",
    "max_position_embeddings",
    "global_head_dim",
    "default_output_length",
    "bidirectional",
)
"""Keys that change no count: clipping bounds of matrices, and lengths that the processor sets."""
TURN = 100.0
"""Default base (rope_theta) of the rotary positions of rows and columns."""
TOKENS = (70, 140, 280, 560, 1120)
"""Tokens of an image that the processor allows."""
USUAL_SIDE = 16
"""Rows and columns of tokens in the default image."""
MELS = 128
"""Mel bins of Gemma 4's feature extractor."""
WIDER = 4
"""Width of a feed-forward network as a multiple of the layer's."""


def vision(source: TowerSource) -> Mapped:
    """Gemma 4's vision: tables of rows and columns, sandwich norms, 3 x 3 pooling, one matrix."""
    config = source.part("vision_config")
    config.ignore(*NO_FIGURE, "rope_parameters", "rope_scaling")
    config.only("attention_bias", False)
    patch, n = config.size("patch_size").value, config.size("pooling_kernel_size").value
    norm = hf.rmsnorm(config)
    bare = {**norm, "weight": False}
    side = n * patch
    attention = {
        "kind": "gqa",
        "n_kv_heads": config.size("num_key_value_heads"),
        "head_dim": config.size("head_dim"),
        "bias": False,
        "scale": 1.0,
        "qk_norm": {"per": "head"},
        "v_norm": bare,
        "position": {"kind": "grid_rope", "theta": _theta(source)},
    }
    ffn = {
        "kind": "glu",
        "d_ff": config.size("intermediate_size"),
        "activation": hf.activation(config, "hidden_activation"),
    }
    encoder = vit_like(
        config,
        _patches(config, patch, side),
        attention=attention,
        norm=norm,
        ffn=ffn,
        layer={"kind": "sandwich"},
        final_norm=False,
    )
    config.report_unread_keys()
    pool, normed = {"kind": "pool", "block": [n, n]}, {"kind": "norm", "norm": bare}
    steps = [pool, normed, linear(source.width, bias=False)]
    sizing = {"kind": "largest", "factor": side, "most": _tokens(source, patch, n) * side * side}
    return {"model": encoder, "sizing": sizing, "projector": steps}


def _patches(config: Config, patch: int, side: int) -> Mapped:
    """The front end of patches, with a position table of columns and one of rows."""
    return {
        "kind": "patches",
        "image_size": [USUAL_SIDE * side] * 2,
        "patch_size": [patch, patch],
        "flat": True,
        "bias": False,
        "class_token": False,
        "position": "axes",
        "axis_entries": config.size("position_embedding_size"),
        "coordinates": "grid",
    }


def _theta(source: TowerSource) -> float:
    """The base (rope_theta) of the rotary positions."""
    rope = source.whole.inner("vision_config", {}).get("rope_parameters", default=None)
    theta = rope.get("rope_theta", TURN) if isinstance(rope, dict) else TURN
    if not isinstance(theta, int | float) or theta <= 0:
        raise source.whole.error(f"rope_theta {hf.short_repr(theta)} of vision_config is no number above 0")
    return float(theta)


def _tokens(source: TowerSource, patch: int, pooled: int) -> int:
    """The most tokens of an image that the processor allows."""
    source.whole.ignore("vision_soft_tokens_per_image")
    most = source.processor.get("max_soft_tokens")
    if not source.in_file:
        source.note(f"one has at most {most} tokens")
    same = {"patch_size": patch, "pooling_kernel_size": pooled}
    for key, value in same.items() if source.in_file else ():
        if source.processor.get(key, default=value) != value:
            raise ArchError(f"{hf.PROCESSOR}: {key} is not the {value} of vision_config")
    if not isinstance(most, int) or most not in TOKENS:
        allowed = ", ".join(map(str, TOKENS))
        raise ArchError(
            f"{hf.PROCESSOR}: max_soft_tokens must be one of {allowed}, not {hf.short_repr(most)}"
        )
    return most


def audio(source: TowerSource) -> Mapped:
    """Gemma 4's audio: two convolutions, Conformer layers with local attention, two matrices."""
    config = source.part("audio_config")
    config.ignore(*NO_FIGURE, "gradient_clipping")
    width, norm = config.size("hidden_size"), hf.rmsnorm(config)
    network = {
        "kind": "mlp",
        "d_ff": width.derive(WIDER * width.value),
        "activation": hf.activation(config, "hidden_act"),
    }
    layer = {
        "kind": "conformer",
        "convolution": {
            "kernel": config.size("conv_kernel_size"),
            "causal": True,
            "activation": hf.activation(config, "hidden_act"),
            "norm": norm,
        },
        "normed": "both",
        "network_weights": [1.0, config.number("residual_weight").value],
    }
    encoder = vit_like(
        config,
        _subsampled(config, norm),
        attention=_local(config),
        norm=norm,
        ffn=network,
        layer=layer,
        final_norm=False,
    )
    config.report_unread_keys()
    steps = [
        linear(config.size("output_proj_dims")),
        {"kind": "norm", "norm": {**norm, "weight": False}},
        linear(source.width, bias=False),
    ]
    return {"part": "audio_tower", "model": encoder, "projector": steps, "within": 1}


def _subsampled(config: Config, norm: Mapped) -> Mapped:
    """Two convolutions over frames and mel bins."""
    channels = config.value("subsampling_conv_channels")
    sizes = channels.value
    if not isinstance(sizes, list | tuple) or [type(size) for size in sizes] != [int, int]:
        raise config.error("subsampling_conv_channels must be a pair of sizes", at=channels.place)
    if sizes[0] != MELS:
        # the class derives the width after the convolutions from sizes[0], not from the mel bins
        raise config.error(f"{sizes[0]} channels do not fit {MELS} mel bins", at=channels.place)
    return {
        "kind": "subsampled_spectrogram",
        "n_mels": MELS,
        "channels": [*sizes],
        "conv_bias": False,
        "bias": False,
        "norm": {"kind": "layernorm", "eps": norm["eps"], "bias": False},
    }


def _local(config: Config) -> Mapped:
    """Attention in blocks of tokens, each of which also sees tokens before it."""
    back, ahead = config.size("attention_context_left"), config.count("attention_context_right")
    if ahead.value:
        raise config.error("attention_context_right above 0 is not supported", at=ahead.place)
    block = config.size("attention_chunk_size")
    if block.value not in (back.value, back.value - 1):
        # the class has (block + before) // 2 relative distances, enough for these blocks alone
        raise config.error(f"attention_chunk_size {block} does not fit {back} tokens back", at=block.place)
    return {
        "kind": "block_context",
        "block": block,
        "before": back.value - 1,
        "reach": back.value - 1,
        "sinusoids": True,
        "trained_scale": True,
        "softcap": config.number("attention_logit_cap"),
        "bias": False,
    }


RADIO_PLAIN = ("patch_dim", "video_patch_dim", "summary_idxs", "norm_mean", "norm_std", "image_size")
"""Unread keys: derived by the class, about pixels, or about the output of RADIO alone."""
SHUFFLED = 2
"""Side of the square of patches that are merged into one token."""


def nemotron_vision(source: TowerSource) -> Mapped:
    """Nemotron Omni's vision: RADIO, 2 x 2 patches merged, a norm, two linear layers with ReLU²."""
    whole, config = source.whole, source.part("vision_config")
    whole.only("downsample_ratio", 0.5, default=0.5)
    whole.ignore("force_image_size", "video_pruning_rate")
    encoder, width = _radio(whole, config), config.size("hidden_size").value
    config.report_unread_keys()
    if whole.size("vision_hidden_size", "vit_hidden_size", default=1280).value != width:
        raise whole.error(f"vision_hidden_size must be {width}, as wide as the encoder")
    leading = encoder["front_end"]["registers"]
    within: list[Mapped] = [{"kind": "drop", "number": leading}] if leading else []
    if source.text.get("num_nextn_predict_layers", 0):
        within.append({"kind": "norm", "norm": hf.layernorm(config.number("layer_norm_eps"))})
    inner = whole.size("projector_hidden_size", default=4096)
    return {
        "model": encoder,
        "sizing": _patch_range(source, config.size("patch_size").value),
        "projector": [*within, merged(SHUFFLED), *_squares(source, inner, bias=False)],
        "within": len(within),
    }


def nemotron_audio(source: TowerSource) -> Mapped:
    """Nemotron Omni: Parakeet's encoder without biases and scale, and a projector like that of images.

    A sound has one frame more than steps of 10 ms.
    """
    unlike = {"attention_bias": False, "scale_input": False}
    config = source.part("audio_config", {**hf.class_defaults("parakeet_encoder"), **unlike})
    config.ignore("num_key_value_heads", *DROPPED.split(), "sampling_rate")
    encoder = parakeet(config)
    inner, bias = config.size("projection_hidden_size"), config.flag("projection_bias")
    config.report_unread_keys()
    encoder["front_end"]["beyond"] = 1
    return {
        "part": "audio_tower",
        "model": encoder,
        "projector": _squares(source, inner, bias=bias),
    }


def _squares(source: TowerSource, inner: Any, *, bias: Any) -> list[Mapped]:
    """Nemotron Omni's projector: RMSNorm, and two linear layers with ReLU² between them."""
    return [
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": 1e-5}},
        linear(inner, bias=bias),
        {"kind": "activation", "activation": "relu2"},
        linear(source.width, bias=bias),
    ]


def _radio(whole: Config, config: Config) -> Mapped:
    """RADIO's encoder: class tokens without positions, and an unused matrix for patches of videos."""
    config.ignore(*RADIO_PLAIN)
    width, patch = config.size("hidden_size"), config.size("patch_size").value
    frames = whole.size("video_temporal_patch_size", default=2).value
    config.only("video_temporal_patch_size", frames, default=frames)
    side = config.size("max_img_size").value // patch * patch
    front_end = patches(
        config,
        image_size=[side, side],
        flat=True,
        bias=False,
        class_token=False,
        registers=config.count("num_cls_tokens").value + config.count("num_registers").value,
        resize="bilinear",
        squared=True,
    )
    inner = int(width.value * config.number("mlp_ratio").value)
    network = hf.mlp(config, width.derive(inner), "hidden_act")
    if config.flag("use_swiglu_ffn").value:
        # two thirds of the width, as SwiGLU has three matrices in place of two; a multiple of 8
        thirds = (int(inner * 2 / 3) + 7) // 8 * 8
        network = {"kind": "glu", "d_ff": thirds, "activation": "silu", "bias": True}
    encoder = vit_like(
        config,
        front_end,
        attention={"bias": qkv_biases(config)},
        ffn=network,
        layer={"layer_scale": config.number("layerscale_value")},
        final_norm=False,
    )
    of_videos = [width.value, frames * config.size("num_channels").value * patch * patch]
    return {**encoder, "unread": {"video_patches": of_videos}}


def _patch_range(source: TowerSource, patch: int) -> Mapped:
    """The fewest and most patches of an image, by the processor."""
    processor = source.processor
    if source.in_file:
        processor.only("patch_size", patch)
    processor.only("downsample_ratio", 0.5)
    if not source.in_file:
        source.note("it has 1,024 to 13,312 patches")
    least, most = processor.size("min_num_patches").value, processor.count("max_num_patches").value
    room = max((processor.size("max_model_len").value - 4) * SHUFFLED**2, least)
    most = max(min(room, most) if most else room, least)
    return {"kind": "patch_range", "patch": patch, "block": SHUFFLED, "least": least, "most": most}
