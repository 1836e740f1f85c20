"""Towers of models that see and hear: Qwen-Omni's encoders of sounds, Nemotron Omni's of images."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import activation, layernorm, mlp
from archcli.load.huggingface.towers.beside import TowerSource, linear, merged
from archcli.load.huggingface.towers.heard import BIASED, NO_FIGURE, WORDS
from archcli.load.huggingface.whole.vit_like import patches, qkv_biases, vit_like
from archcli.load.huggingface.whole.wave_like import DROPPED, PARAKEET, parakeet

QWEN2_5: Mapped = {
    "num_mel_bins": 128,
    "encoder_layers": 32,
    "encoder_attention_heads": 20,
    "encoder_ffn_dim": 5120,
    "d_model": 1280,
    "activation_function": "gelu",
    "max_source_positions": 1500,
    "n_window": 100,
    "output_dim": 3584,
}
QWEN3: Mapped = {
    **QWEN2_5,
    "n_window": 50,
    "n_window_infer": 800,
    "conv_chunksize": 500,
    "downsample_hidden_size": 480,
}
QWEN3_ASR: Mapped = {
    **QWEN3,
    "encoder_layers": 24,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "d_model": 1024,
    "max_position_embeddings": 13,
}
NORM = layernorm(1e-5)
OF_CHUNK = 13
"""Tokens of a chunk that Qwen3's classes reckon with, whatever its length."""
LAYERS = 3
"""Convolutions of Qwen3-Omni, each of which halves the length."""


def _whisper(source: TowerSource, defaults: Mapped) -> Config:
    """The config of an encoder by Whisper's words."""
    config = source.part("audio_config", defaults).with_words(**WORDS)
    config.ignore(*NO_FIGURE)
    return config


def _encoder(config: Config, front_end: Mapped, window: int, bias: Any) -> Mapped:
    """Whisper's layers, whose tokens see those of their window; the last norm is a step of the projector."""
    ffn = mlp(config, config.size("intermediate_size"), "activation_function")
    attention = {"kind": "patch_window", "side": window, "bias": bias}
    return vit_like(config, front_end, attention=attention, norm=NORM, ffn=ffn, final_norm=False)


def qwen2_5_omni(source: TowerSource) -> Mapped:
    """Qwen2.5-Omni: chunks of 200 frames, which are windows too; means of two vectors are projected."""
    config = _whisper(source, QWEN2_5)
    half = config.size("n_window").value
    front_end = {
        "kind": "chunked_spectrogram",
        "n_mels": config.size("num_mel_bins"),
        "chunk": 2 * half,
        "activation": "gelu",
    }
    encoder = _encoder(config, front_end, half, BIASED)
    out = config.size("output_dim")
    steps = [{"kind": "pool", "block": [2, 1]}, {"kind": "norm", "norm": NORM}, linear(out)]
    config.report_unread_keys()
    # vectors around a sound, which are no token of it
    unread = {"audio_bos_eos_token": [2, out.value]}
    return {"part": "audio_tower", "model": encoder, "projector": steps, "within": 3, "unread": unread}


def qwen3_omni(source: TowerSource) -> Mapped:
    """Qwen3-Omni: three convolutions over chunks of 100 frames, windows of eight of them."""
    # the whole perceptron is a part of the class of the encoder
    return _qwen3(source, QWEN3, within=4)


def qwen3_asr(source: TowerSource) -> Mapped:
    """Qwen3-ASR: Qwen3-Omni's encoder with a perceptron behind it; short sounds are padded to a chunk."""
    source.whole.ignore("timestamp_token_id", "token_classification_bias", "initializer_range")
    return _qwen3(source, QWEN3_ASR, within=1, whole=True)


def _qwen3(source: TowerSource, defaults: Mapped, *, within: int, **more: bool) -> Mapped:
    """Qwen3's encoder of sounds; `more` are fields of its front end."""
    config = _whisper(source, defaults)
    chunk = 2 * config.size("n_window").value
    most = config.size("n_window_infer")
    if most.value < chunk:
        raise config.error(f"n_window_infer is less than a chunk of {chunk} frames", at=most.place)
    tokens = chunk
    for _ in range(LAYERS):
        tokens = (tokens + 1) // 2
    if tokens != OF_CHUNK:
        raise config.error(f"chunks of {chunk} frames have {tokens} tokens: the class counts {OF_CHUNK}")
    front_end = {
        "kind": "subsampled_spectrogram",
        "n_mels": config.size("num_mel_bins"),
        "channels": [config.size("downsample_hidden_size").value] * LAYERS,
        "bias": False,
        "activation": "gelu",
        "chunk": chunk,
        "sinusoids": True,
        **more,
    }
    encoder = _encoder(config, front_end, most.value // chunk * tokens, True)
    steps = [
        {"kind": "norm", "norm": NORM},
        linear(config.size("hidden_size")),
        {"kind": "activation", "activation": activation(config, "activation_function")},
        linear(config.size("output_dim")),
    ]
    config.report_unread_keys()
    return {"part": "audio_tower", "model": encoder, "projector": steps, "within": within}


RADIO: Mapped = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "mlp_ratio": 4.0,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "use_swiglu_ffn": False,
    "qkv_bias": True,
    "layerscale_value": 1.0,
    "num_channels": 3,
    "patch_size": 16,
    "image_size": 224,
    "max_img_size": 2048,
    "num_cls_tokens": 3,
    "num_registers": 7,
}
RADIO_PLAIN = ("patch_dim", "video_patch_dim", "summary_idxs", "norm_mean", "norm_std", "image_size")
"""Keys that the class derives, and of pixels and of the answer of RADIO by itself."""
RANGE: Mapped = {"min_num_patches": 1024, "max_num_patches": 13312, "max_model_len": 16384}
"""Bounds of the patches of an image, and the context that bounds them too: defaults of the processor."""
SHUFFLED = 2
"""Patches of a side that become one token."""


def nemotron_vision(source: TowerSource) -> Mapped:
    """Nemotron Omni: RADIO's encoder, 2 x 2 patches merged, normalized, through a perceptron of squares."""
    whole, config = source.whole, source.part("vision_config", RADIO)
    whole.only("downsample_ratio", 0.5, default=0.5)
    whole.ignore("force_image_size", "video_pruning_rate")
    encoder, width = _radio(whole, config), config.size("hidden_size").value
    config.report_unread_keys()
    if whole.size("vision_hidden_size", default=1280).value != width:
        raise whole.error(f"vision_hidden_size must be {width}, as wide as the encoder")
    leading = encoder["front_end"]["registers"]
    within: list[Mapped] = [{"kind": "drop", "number": leading}] if leading else []
    if source.text.get("num_nextn_predict_layers", 0):
        within.append({"kind": "norm", "norm": layernorm(config.number("layer_norm_eps"))})
    inner = whole.size("projector_hidden_size", default=4096)
    return {
        "model": encoder,
        "sizing": _patch_range(source, config.size("patch_size").value),
        "projector": [*within, merged(SHUFFLED), *_squares(source, inner, bias=False)],
        "within": len(within),
    }


def nemotron_audio(source: TowerSource) -> Mapped:
    """Nemotron Omni: Parakeet's encoder without biases and scale, and a projector like that of images.

    A sound has a frame more than its length has steps of 10 ms.
    """
    unlike = {"attention_bias": False, "scale_input": False}
    config = source.part("audio_config", {**PARAKEET, **unlike})
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
    """Nemotron Omni's projector: a norm and a perceptron with squares of a rectifier."""
    return [
        {"kind": "norm", "norm": {"kind": "rmsnorm", "eps": 1e-5}},
        linear(inner, bias=bias),
        {"kind": "activation", "activation": "relu2"},
        linear(source.width, bias=bias),
    ]


def _radio(whole: Config, config: Config) -> Mapped:
    """RADIO's encoder: tokens in front without places, and a matrix of patches of videos that idles."""
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
    network = mlp(config, width.derive(inner), "hidden_act")
    if config.flag("use_swiglu_ffn").value:
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
    """The bounds of the patches of an image, as the processor has them."""
    stated = source.processor.with_defaults(**RANGE, patch_size=patch, downsample_ratio=0.5)
    stated.only("patch_size", patch)
    stated.only("downsample_ratio", 0.5)
    if not source.processor.data:
        source.note("it has 1,024 to 13,312 patches")
    least, most = stated.size("min_num_patches").value, stated.count("max_num_patches").value
    room = max((stated.size("max_model_len").value - 4) * SHUFFLED**2, least)
    most = max(min(room, most) if most else room, least)
    return {"kind": "patch_range", "patch": patch, "block": SHUFFLED, "least": least, "most": most}
