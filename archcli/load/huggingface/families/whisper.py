"""Whisper: WhisperConfig and WhisperForConditionalGeneration."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.parts.decoder import PLAIN
from archcli.load.huggingface.parts.feed_forward import mlp
from archcli.load.huggingface.parts.norms import layernorm
from archcli.load.huggingface.value import Mapped
from archcli.load.huggingface.weights.names import ENCODER_DECODER
from archcli.load.huggingface.weights.rules import Weights

MODEL_TYPES = ("whisper",)

DEFAULTS = {
    "vocab_size": 51865,
    "num_mel_bins": 80,
    "encoder_layers": 4,
    "encoder_attention_heads": 6,
    "decoder_layers": 4,
    "decoder_attention_heads": 6,
    "decoder_ffn_dim": 1536,
    "encoder_ffn_dim": 1536,
    "activation_function": "gelu",
    "d_model": 384,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "tie_word_embeddings": True,
}
BIASED = ["q", "v", "o"]
HARMLESS = (
    "apply_spec_augment",
    "classifier_proj_size",
    "encoder_layerdrop",
    "forced_decoder_ids",
    "decoder_layerdrop",
    "median_filter_width",
    "max_position_embeddings",  # each half has a key of its own
    "num_hidden_layers",
    "scale_embedding",  # read by the class, and used nowhere
    "use_weighted_layer_sum",
    *(f"mask_{axis}_{what}" for axis in ("time", "feature") for what in ("prob", "length", "min_masks")),
)


def mapping(config: Config) -> Mapped:
    """Pre-norm, a convolutional front end over a spectrogram, no bias on keys.

    The encoder's positions are frozen, but stored.
    """
    config = config.of_class(DEFAULTS)
    config.only_architectures("WhisperForConditionalGeneration", "WhisperModel")
    config.ignore(*PLAIN, *HARMLESS)
    width, length = config.size("d_model"), config.size("max_source_positions")
    encoder = {
        "position": {"kind": "learned", "max_seq_len": length, "frozen": True},
        "front_end": {"in_channels": config.size("num_mel_bins"), "d_model": width},
        **_half(config, "encoder"),
    }
    return {
        "kind": "encoder_decoder",
        "vocab_size": config.size("vocab_size"),
        "d_model": width,
        "max_seq_len": config.size("max_target_positions"),
        "source_len": length,
        "norm": layernorm(1e-5),  # nn.LayerNorm's own eps: the file has no key for it
        "embedding": {"tied": config.flag("tie_word_embeddings"), "position": {"kind": "learned"}},
        "encoder": encoder,
        "decoder": _half(config, "decoder"),
    }


def _half(config: Config, half: str) -> Mapped:
    """The encoder, or the decoder with cross attention."""
    heads = {"n_heads": config.size(f"{half}_attention_heads"), "bias": BIASED}
    layer = {"kind": "pre_norm", "attention": {"kind": "mha", **heads, "causal": half == "decoder"}}
    layer |= {"cross_attention": heads} if half == "decoder" else {}
    layer["ffn"] = mlp(config, config.size(f"{half}_ffn_dim"), "activation_function")
    return {"groups": [{"n_layers": config.size(f"{half}_layers"), "layer": layer}]}


WEIGHTS: Weights = {
    **{name: rule for name, rule in ENCODER_DECODER.items() if ".shared." not in name},
    "[model.]encoder.conv1.*": "encoder.front_end.conv1.*",
    "[model.]encoder.conv2.*": "encoder.front_end.conv2.*",
    "[model.]encoder.embed_positions.weight": "encoder.position_embedding.weight",
    "[model.]encoder.layer_norm.*": "encoder.final_norm.*",
    "[model.]decoder.embed_tokens.weight": "embedding.tokens.weight",
    "[model.]decoder.embed_positions.weight": "embedding.positions.weight",
    "[model.]decoder.layer_norm.*": "decoder.final_norm.*",
    "proj_out.weight": "lm_head.weight",
}
