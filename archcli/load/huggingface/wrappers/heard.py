"""Towers that hear: Whisper's encoder, with every few vectors joined or averaged, and a projector."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.parts.networks import activation, layernorm, mlp
from archcli.load.huggingface.whole.vit_like import vit_like
from archcli.load.huggingface.wrappers.beside import TowerSource, linear

SIZES = {
    "num_mel_bins": 128,
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "intermediate_size": 5120,
    "activation_function": "gelu",
    "max_source_positions": 1500,
}
WORDS = {
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "intermediate_size": "encoder_ffn_dim",
}
NO_FIGURE = ("dropout", "activation_dropout", "encoder_layerdrop", "layerdrop", "scale_embedding")
BIASED = ["q", "v", "o"]
JOINED = 4
"""Vectors of Voxtral's encoder that become one token."""


def _whisper(source: TowerSource) -> tuple[Config, Mapped]:
    """Whisper's encoder, by its own words or the usual ones."""
    config = source.part("audio_config", SIZES).with_words(**WORDS)
    config.ignore(*NO_FIGURE)
    front_end = {
        "kind": "convolved_spectrogram",
        "n_mels": config.size("num_mel_bins"),
        "positions": config.size("max_source_positions"),
        "activation": activation(config, "activation_function"),
    }
    ffn = mlp(config, config.size("intermediate_size"), "activation_function")
    encoder = vit_like(config, front_end, attention={"bias": BIASED}, norm=layernorm(1e-5), ffn=ffn)
    config.report_unread_keys()
    return config, encoder


def qwen2_audio(source: TowerSource) -> Mapped:
    """Qwen2-Audio: means of two vectors through one linear layer."""
    _, encoder = _whisper(source)
    # the class averages before its last norm, which has as many weights either way
    steps = [{"kind": "pool", "block": [2, 1]}, linear(source.width)]
    return {"part": "audio_tower", "model": encoder, "sound": "cut", "projector": steps}


def voxtral(source: TowerSource) -> Mapped:
    """Voxtral: four vectors side by side through a perceptron without biases."""
    config, encoder = _whisper(source)
    width = config.size("intermediate_size").value
    if width != JOINED * config.size("hidden_size").value:
        raise config.error("intermediate_size must be four times hidden_size: the class joins by it")
    act = activation(source.whole, "projector_hidden_act", default="gelu")
    steps = [
        {"kind": "merge", "block": [JOINED, 1]},
        linear(source.width, bias=False),
        {"kind": "activation", "activation": act},
        linear(source.width, bias=False),
    ]
    return {"part": "audio_tower", "model": encoder, "sound": "windows", "projector": steps}
