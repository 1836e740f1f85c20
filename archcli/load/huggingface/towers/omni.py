"""Audio towers of omni models: Qwen's windows of tokens, Muse Spark's pyramid over a wave."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import activation, layernorm, mlp, rmsnorm
from archcli.load.huggingface.towers.beside import TowerSource, linear
from archcli.load.huggingface.towers.heard import BIASED, NO_FIGURE, WORDS
from archcli.load.huggingface.whole.vit_like import vit_like

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


SPARK: Mapped = {
    "patch_sizes": [16, 6, 5, 4],
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [2, 2, 2, 2],
    "num_hidden_layers": 4,
    "mlp_ratio": 4.0,
    "conv_kernel_size": 7,
    "hidden_act": "gelu",
    "rms_norm_eps": 1e-6,
    "out_hidden_size": 8192,
}


def muse_spark(source: TowerSource) -> Mapped:
    """Muse Spark: a pyramid of causal convolutions over a wave of 24 kHz, and no layers."""
    config = source.part("audio_config", SPARK)
    count = config.size("num_hidden_layers").value
    strides, widths, depths = (
        _stages(config, key, count) for key in ("patch_sizes", "hidden_sizes", "depths")
    )
    out, norm, ratio = config.size("out_hidden_size"), rmsnorm(config), config.number("mlp_ratio")
    if out.value != source.width.value:
        raise config.error("out_hidden_size must be the width of the language model", at=out.place)
    # int() as the class has it; a width below 1 has no matrix
    inner = [int(width * ratio.value) for width in widths]
    if min(inner) < 1:
        raise config.error("mlp_ratio leaves no width between the matrices", at=ratio.place)
    act = activation(config, "hidden_act")
    front_end = {
        "kind": "wave_pyramid",
        "channels": widths[:-1],
        "strides": strides,
        "depths": depths,
        "networks": [{"kind": "mlp", "d_ff": d_ff, "bias": True, "activation": act} for d_ff in inner],
        "conv_kernel": config.size("conv_kernel_size"),
        "norm": norm,
    }
    encoder = {"kind": "media_encoder", "d_model": widths[-1], "norm": norm, "front_end": front_end}
    config.report_unread_keys()
    steps = [linear(out), {"kind": "norm", "norm": norm}]
    return {
        "part": "audio_tower",
        "model": {**encoder, "groups": []},
        "projector": steps,
        "within": len(steps),
    }


def _stages(config: Config, key: str, count: int) -> list[int]:
    """A size for each stage."""
    sizes = config.value(key)
    listed = sizes.value if isinstance(sizes.value, list) else []
    if len(listed) != count or any(type(size) is not int or size < 1 for size in listed):
        raise config.error(f"{key} must be {count} sizes, one for each stage", at=sizes.place)
    return listed
