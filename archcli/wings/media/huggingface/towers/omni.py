"""Audio and vision towers of omni models: Qwen2.5-Omni, Qwen3-Omni, Muse Spark, dots3 note."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.wings.media.huggingface.towers.heard import BIASED, NO_FIGURE, WORDS, half_turned
from archcli.wings.media.huggingface.towers.source import (
    ROTARY,
    TowerSource,
    linear,
    merger,
    multiples,
    still_patches,
)
from archcli.wings.media.huggingface.whole.vit_like import vit_like

NORM = hf.layernorm(1e-5)
OF_CHUNK = 13
"""Tokens of a chunk: a constant in Qwen3's classes, so that a config with other chunks is refused."""
LAYERS = 3
"""Convolutions of Qwen3-Omni, each of which halves the length."""


def _whisper(source: TowerSource) -> Config:
    """The config of a Whisper-like encoder, with Whisper's keys renamed."""
    config = source.part("audio_config").with_words(**WORDS)
    config.ignore(*NO_FIGURE)
    return config


def _encoder(config: Config, front_end: Mapped, window: int, bias: Any) -> Mapped:
    """Whisper's layers with attention within windows; the final norm is a step of the projector."""
    ffn = hf.mlp(config, config.size("intermediate_size"), "activation_function")
    attention = {"kind": "patch_window", "side": window, "bias": bias}
    return vit_like(config, front_end, attention=attention, norm=NORM, ffn=ffn, final_norm=False)


def qwen2_5_omni(source: TowerSource) -> Mapped:
    """Qwen2.5-Omni: attention within chunks of 200 frames; pairs of vectors are averaged and projected."""
    config = _whisper(source)
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
    # begin and end vectors around a sound: the class has them as weights, and its forward reads none
    unread = {"audio_bos_eos_token": [2, out.value]}
    return {"part": "audio_tower", "model": encoder, "projector": steps, "within": 3, "unread": unread}


def qwen3_omni(source: TowerSource) -> Mapped:
    """Qwen3-Omni: three convolutions over chunks of 100 frames, attention windows of eight chunks."""
    # within=4: all four steps of the projector are in the class of the encoder
    return _qwen3(source, within=4)


def qwen3_asr(source: TowerSource) -> Mapped:
    """Qwen3-ASR: Qwen3-Omni's encoder, then two linear layers; short sounds are padded to a chunk."""
    source.whole.ignore("timestamp_token_id", "token_classification_bias", "initializer_range")
    return _qwen3(source, within=1, whole=True)


def _qwen3(source: TowerSource, *, within: int, **more: bool) -> Mapped:
    """Qwen3's encoder of sounds; `more` are fields of its front end."""
    config = _whisper(source)
    # keys of a pass over all chunks at once, which only some of the classes have
    config.ignore("max_source_positions", "conv_chunksize")
    chunk = 2 * config.size("n_window").value
    most = config.size("n_window_infer")
    if most.value < chunk:
        raise config.error(f"n_window_infer is less than a chunk of {chunk} frames", at=most.place)
    # each convolution has stride 2, and padding that rounds up
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
        {"kind": "activation", "activation": hf.activation(config, "activation_function")},
        linear(config.size("output_dim")),
    ]
    config.report_unread_keys()
    return {"part": "audio_tower", "model": encoder, "projector": steps, "within": within}


def muse_spark(source: TowerSource) -> Mapped:
    """Muse Spark: a pyramid of causal convolutions over a 24 kHz wave, and no transformer layers."""
    config = source.part("audio_config")
    count = config.size("num_hidden_layers").value
    strides, widths, depths = (
        _stages(config, key, count) for key in ("patch_sizes", "hidden_sizes", "depths")
    )
    out, norm, ratio = config.size("out_hidden_size"), hf.rmsnorm(config), config.number("mlp_ratio")
    if out.value != source.width.value:
        raise config.error("out_hidden_size must be the width of the language model", at=out.place)
    # int() as the class has it; a width below 1 has no matrix
    inner = [int(width * ratio.value) for width in widths]
    if min(inner) < 1:
        raise config.error("mlp_ratio leaves no width between the matrices", at=ratio.place)
    act = hf.activation(config, "hidden_act")
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


DOTS3_WORDS = {
    "hidden_size": "embed_dim",
    "num_attention_heads": "num_heads",
    "attention_bias": "use_bias",
    "router_scaling_factor": "router_scale",
}
DOTS3_ADAPTER = {"adapter_in_dim": 1536, "adapter_out_dim": 5120, "adapter_merge_size": 2}
"""Default sizes of the adapter, which must match the tower and the language model."""
PYRAMID = [-1] * 25 + [*range(4, 65, 4), 64]
"""Experts of each layer by default; a layer with -1 has a dense network."""
DOTS3_RATE = {"sampling_rate": 16000, "hop_length": 160, "samples_per_token": 1280}
"""100 frames a second, 8 frames a token; other rates are refused."""
DOTS3_CHUNK = 6000
"""Frames of a minute, the most that the processor reads at once."""


def dots3_vision(source: TowerSource) -> Mapped:
    """dots3 note's vision: RoPE, a number of experts that grows with depth, 2 x 2 patches merged."""
    config = source.part("vision_config").with_words(**DOTS3_WORDS)
    config.ignore("num_key_value_heads", "is_causal", "rope_parameters")
    norm, width = hf.rmsnorm(config, eps=1e-5), config.size("hidden_size").value
    n, out = config.size("spatial_merge_size"), source.width.value
    for key, value in (("adapter_in_dim", width), ("adapter_out_dim", out), ("adapter_merge_size", n.value)):
        config.only(key, value, default=DOTS3_ADAPTER[key])
    encoder = vit_like(
        config,
        still_patches(config, norm=norm),
        attention={
            "bias": config.flag("attention_bias"),
            "position": ROTARY,
            "qk_norm": {"norm": norm, "per": "head"},
        },
        norm=norm,
        ffn=hf.gated(config, bias=config.flag("mlp_bias")),
    )
    layer = encoder["groups"][0]["layer"]
    of_layers = [{**layer, "ffn": _dots3_experts(config, *pair) or layer["ffn"]} for pair in _pyramid(config)]
    config.report_unread_keys()
    return {
        "model": {**encoder, "groups": hf.groups(of_layers)},
        "sizing": multiples(source, config, 56 * 56, 28 * 28 * 1280),
        "projector": merger(width * n.value**2, out, "gelu", norm=hf.layernorm(1e-6), n=n),
    }


def _pyramid(config: Config) -> list[tuple[int, int]]:
    """(experts, experts per token) of each layer; (0, 0) for a dense layer."""
    count, top_k = config.layers(), config.size("num_experts_per_tok", "capacity_factor", default=2).value
    pyramid, types = config.per_layer("pyramid_num_routed", count), config.per_layer("mlp_layer_types", count)
    if pyramid is None and types is not None:
        return [_own_experts(config, layer, kind, top_k) for layer, kind in enumerate(types)]
    config.only("per_layer_config", None, default=None)
    if pyramid is None:
        pyramid = config.with_defaults(pyramid_num_routed=PYRAMID).per_layer("pyramid_num_routed", count)
    if pyramid is None or not all(type(number) is int for number in pyramid):
        raise config.error("pyramid_num_routed must be a list of whole numbers")
    return [(number, min(top_k, number)) if number > 0 else (0, 0) for number in pyramid]


def _own_experts(config: Config, layer: int, kind: Any, top_k: int) -> tuple[int, int]:
    """(experts, experts per token) of a layer, by its entry of per_layer_config, else the config's."""
    if kind not in ("dense", "sparse"):
        raise config.error(f"mlp_layer_types {hf.short_repr(kind)} is not supported")
    entries = config.get("per_layer_config", default=None) or {}
    of_layer = entries.get(str(layer), {}) if isinstance(entries, dict) else None
    if not isinstance(of_layer, dict) or not of_layer.keys() <= {"num_local_experts", "num_experts_per_tok"}:
        raise config.error(f"per_layer_config of layer {layer} is not supported")
    if kind == "dense":
        return 0, 0
    inner = Config(
        {key: value for key, value in of_layer.items() if value is not None},
        notes=config.notes,
        reader=config.reader,
    )
    number = inner.size("num_local_experts", default=config.size("num_local_experts").value)
    return number.value, inner.size("num_experts_per_tok", default=top_k).value


def _dots3_experts(config: Config, number: int, top_k: int) -> Mapped | None:
    """Routed experts with a sigmoid router; None for a dense layer."""
    if not number:
        return None
    if config.flag("mlp_bias").value:
        raise config.error("mlp_bias with experts is not supported")
    router = {
        "scores": "sigmoid",
        "normalized": True,
        "scale": config.number("router_scaling_factor"),
        "correction": True,
    }
    expert = hf.gated(config, width="moe_intermediate_size")
    return {"kind": "moe", "n_experts": number, "top_k": top_k, "expert": expert, "router": router}


def dots3_audio(source: TowerSource) -> Mapped:
    """dots3 note's audio: three convolutions, RoPE on half of each head, two linear layers."""
    config = source.part("audio_config")
    config.ignore("num_key_value_heads", "max_position_embeddings", "rope_parameters", "head_dim", "dropout")
    config.only("whisper_config", None, default=None)
    mels, channels = config.size("feature_size"), config.size("downsample_hidden_size").value
    derived = {**DOTS3_RATE, "conv_output_size": channels * ((mels.value + 7) // 8)}
    for key, value in derived.items():
        config.only(key, value, default=value)
    width, heads = config.size("hidden_size").value, config.size("num_attention_heads").value
    config.only("adapter_input_size", width)
    config.only("adapter_out_dim", source.width.value)
    front_end = {
        "kind": "subsampled_spectrogram",
        "n_mels": mels,
        "channels": [channels] * LAYERS,
        "bias": False,
        "activation": "gelu",
        "most": DOTS3_CHUNK,
    }
    norm = {"kind": "rmsnorm", "eps": 1e-6}
    encoder = vit_like(
        config,
        front_end,
        attention={
            "bias": BIASED if config.flag("attention_bias").value else False,
            "position": half_turned(config, width // heads),
        },
        norm=norm,
        ffn=hf.gated(config, bias=True),
    )
    config.report_unread_keys()
    steps = [
        {"kind": "norm", "norm": hf.layernorm(1e-5)},
        linear(source.width),
        {"kind": "activation", "activation": "gelu"},
        linear(source.width),
    ]
    # all steps of the projector are in the class of the encoder
    return {"part": "audio_tower", "model": encoder, "projector": steps, "within": len(steps)}
