"""Whisper: the encoder-decoder, its decoder alone, and its audio classifier."""

from __future__ import annotations

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Weights
from archcli.load.huggingface.whole.bart_like import (
    TORCH_NORM,
    bart_weights,
    half,
    is_decoder_alone,
    note_idle,
)

CLASSIFIER = "WhisperForAudioClassification"
BIASED = ["q", "v", "o"]
UNREAD = (
    "apply_spec_augment",
    "classifier_proj_size",
    "encoder_layerdrop",
    "forced_decoder_ids",
    "decoder_layerdrop",
    "median_filter_width",
    "max_position_embeddings",  # each half has a key of its own
    "num_hidden_layers",
    # the class reads it into an attribute, which nothing uses
    "scale_embedding",
    "use_weighted_layer_sum",
    *(f"mask_{axis}_{what}" for axis in ("time", "feature") for what in ("prob", "length", "min_masks")),
)


def _whisper(config: Config) -> Mapped:
    """Pre-norm, a convolutional front end over a spectrogram, no bias on keys.

    The encoder's positions are frozen, but stored.
    """
    config.only_architectures(
        "WhisperForConditionalGeneration", "WhisperModel", "WhisperForCausalLM", CLASSIFIER
    )
    config.ignore(*hf.PLAIN, *UNREAD, "num_mel_bins", "max_source_positions")
    if config.architecture == CLASSIFIER:
        return _classifier(config)
    whole = {
        "vocab_size": config.size("vocab_size"),
        "d_model": config.size("d_model"),
        "max_seq_len": config.size("max_target_positions"),
        "norm": dict(TORCH_NORM),
        "embedding": {"tied": config.flag("tie_word_embeddings"), "position": {"kind": "learned"}},
    }
    decoder = half(config, "decoder", "pre_norm", bias=BIASED)
    if is_decoder_alone(config):
        note_idle(config)
        return {**whole, **decoder}
    length = config.size("max_source_positions")
    encoder = {
        "position": {"kind": "learned", "max_seq_len": length, "frozen": True},
        "front_end": {"in_channels": config.size("num_mel_bins"), "d_model": config.size("d_model")},
        **half(config, "encoder", "pre_norm", bias=BIASED),
    }
    halves = {"source_len": length, "encoder": encoder, "decoder": decoder}
    return {"kind": "encoder_decoder", **whole, **halves}


def _classifier(config: Config) -> Mapped:
    """The encoder, a projection of each position, their mean, and a classifier."""
    config.ignore("vocab_size", "max_target_positions", "decoder_layers", "decoder_attention_heads")
    config.ignore("decoder_ffn_dim", "tie_word_embeddings", "label2id")
    config.only("use_weighted_layer_sum", False, default=False)
    front_end = {
        "kind": "convolved_spectrogram",
        "n_mels": config.size("num_mel_bins"),
        "positions": config.size("max_source_positions"),
    }
    return {
        "kind": "media_encoder",
        "d_model": config.size("d_model"),
        "norm": dict(TORCH_NORM),
        "front_end": front_end,
        "pooling": {"kind": "mean", "width": config.size("classifier_proj_size")},
        "n_labels": config.labels(),
        **half(config, "encoder", "pre_norm", bias=BIASED),
    }


def _classifier_weights() -> Weights:
    """Names of the encoder's tensors and of its classifier."""
    return {
        "encoder.conv1.*": "front_end.conv1.*",
        "encoder.conv2.*": "front_end.conv2.*",
        "encoder.embed_positions.weight": "front_end.positions.weight",
        **hf.fairseq_layers("encoder.layers.*", "layers.*"),
        "encoder.layer_norm.*": "final_norm.*",
        "projector.*": "pooling.dense.*",
        "classifier.*": "classifier.*",
    }


def _whisper_weights(config: Config) -> Weights:
    """Weight names of both halves, or of the decoder."""
    if config.architecture == CLASSIFIER:
        return _classifier_weights()
    names = bart_weights(config)
    tables = ("[model.]shared.weight", "[model.]encoder.embed_tokens.weight", "lm_head.weight")
    return {
        **{name: rule for name, rule in names.items() if name not in tables},
        "[model.]encoder.conv1.*": "encoder.front_end.conv1.*",
        "[model.]encoder.conv2.*": "encoder.front_end.conv2.*",
        "proj_out.weight": "lm_head.weight",
    }


FAMILIES = {
    "whisper": Family(
        "Whisper: WhisperConfig and WhisperForConditionalGeneration, or WhisperForCausalLM.",
        _whisper,
        _whisper_weights,
    ),
}
