"""Encoders of sounds: AST on spectrograms, wav2vec 2.0 and HuBERT on waves."""

from __future__ import annotations

from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Family, Mapped, Rule, Weights
from archcli.load.huggingface.whole.vit_like import flat, labels, vit_like
from archcli.load.huggingface.whole.wave_like import FRONT, NO_SIZE, sizes, wave, wave_ends, wave_names


def _ast(config: Config) -> Mapped:
    """AST: patches of a spectrogram that overlap, two tokens in front, and their mean."""
    config.only_architectures("ASTModel", "ASTForAudioClassification")
    norm, patch = hf.layernorm(config.number("layer_norm_eps")), config.size("patch_size")
    mels, frames = config.size("num_mel_bins"), config.size("max_length")
    front_end = {
        "kind": "spectrogram_patches",
        "image_size": mels.derive([mels.value, frames.value]),
        "patch_size": patch.derive([patch.value, patch.value]),
        "stride": [config.size("frequency_stride").value, config.size("time_stride").value],
        "teacher_token": True,
        "resize": None,
    }
    ends: Mapped = {"pooling": {"kind": "first_two"}}
    if config.architecture.endswith("Classification"):
        ends = {"pooling": {"kind": "first_two", "norm": norm}, **labels(config)}
    biases = True if config.flag("qkv_bias").value else ["o"]
    return vit_like(config, front_end, attention={"bias": biases}, **ends)


def _wav2vec2_like(config: Config, prefix: str, front_end: Mapped | None = None, **more: Any) -> Mapped:
    """wav2vec 2.0: convolutions of a wave, convolved positions, layers as BERT's or normalized first."""
    config.only_architectures(f"{prefix}Model", f"{prefix}ForCTC", f"{prefix}ForSequenceClassification")
    config.ignore(*NO_SIZE.split(), "vocab_size")
    config.only("add_adapter", False, default=False)
    config.only("conv_pos_batch_norm", False, default=False)
    if config.get("adapter_attn_dim", default=None) is not None:
        what = "adapters of attention (adapter_attn_dim) are not supported"
        raise config.error(what, at=config.place("adapter_attn_dim"))
    norm = hf.layernorm(config.number("layer_norm_eps"))
    stable = config.flag("do_stable_layer_norm", default=False).value
    return vit_like(
        config,
        {**wave(config, norm, stable=stable), **(front_end or {})},
        norm=norm,
        layer={} if stable else {"kind": "post_norm"},
        final_norm=stable,
        **wave_ends(config),
        **more,
    )


def _wav2vec2(config: Config) -> Mapped:
    """wav2vec 2.0."""
    return _wav2vec2_like(config, "Wav2Vec2")


def _unispeech(config: Config) -> Mapped:
    """UniSpeech: wav2vec 2.0 with other training."""
    config.ignore("num_ctc_classes", "replace_prob")
    return _wav2vec2_like(config, "UniSpeech")


def _unispeech_sat(config: Config) -> Mapped:
    """UniSpeech-SAT: wav2vec 2.0 with other training."""
    config.ignore("num_clusters")
    return _wav2vec2_like(config, "UniSpeechSat")


def _data2vec(config: Config) -> Mapped:
    """data2vec: wav2vec 2.0 with several layers of convolved positions, normalized without weights."""
    front_end = {
        "position_kernel": config.size("conv_pos_kernel_size"),
        "position_layers": config.size("num_conv_pos_embeddings"),
        "position_norm": hf.layernorm(1e-5, weight=False, bias=False),
        "weight_norm": False,
    }
    return _wav2vec2_like(config, "Data2VecAudio", front_end)


def _wavlm(config: Config) -> Mapped:
    """WavLM: wav2vec 2.0 with T5's buckets of distance, gated by each query."""
    config.ignore("num_ctc_classes")
    bias = {
        "kind": "buckets",
        "n_buckets": config.size("num_buckets"),
        "max_distance": config.size("max_bucket_distance"),
        "bidirectional": True,
    }
    return _wav2vec2_like(config, "WavLM", attention={"kind": "gated_bias"}, score_bias=bias)


OMNI_ASR: Mapped = {
    "hidden_size": 1024,
    "conv_dim": [512] * 7,
    "conv_kernel": [10, 3, 3, 3, 3, 2, 2],
    "conv_stride": [5, 2, 2, 2, 2, 2, 2],
    "conv_bias": True,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "num_conv_pos_embeddings": 128,
    "num_conv_pos_embedding_groups": 16,
    "intermediate_size": 4096,
    "layer_norm_eps": 1e-5,
    "hidden_act": "gelu",
}


def _omni_asr(config: Config) -> Mapped:
    """Omnilingual ASR: wav2vec 2.0 whose layers normalize first, in a class of its own."""
    config.only_architectures("OmniASRForCTC")
    config.ignore("ctc_loss_reduction", "ctc_zero_infinity", "blank_token_id", "pad_token_id", "bos_token_id")
    config.ignore("initializer_range", "eos_token_id")
    inner = config.inner("audio_config", OMNI_ASR)
    inner.ignore("model_type", "hidden_dropout", "activation_dropout", "layerdrop")
    if inner.get("model_type", default="omniasr_audio") != "omniasr_audio":
        raise config.error("an audio_config other than omniasr_audio is not supported")
    taps = inner.size("num_conv_pos_embeddings")
    if taps.value % 2:
        raise config.error(f"num_conv_pos_embeddings {taps} is odd", at=taps.place)
    norm = hf.layernorm(inner.number("layer_norm_eps"))
    front_end = {**wave(inner, norm, stable=True), "weight_norm": False}
    encoder = vit_like(inner, front_end, norm=norm)
    inner.report_unread_keys()
    return {**encoder, "n_labels": config.size("vocab_size")}


def _hubert(config: Config) -> Mapped:
    """HuBERT: wav2vec 2.0 with other training."""
    return _wav2vec2_like(config, "Hubert")


AST: Weights = {
    "[audio_spectrogram_transformer.]embeddings.cls_token": flat(f"{FRONT}.class_token.weight", 2),
    "[audio_spectrogram_transformer.]embeddings.distillation_token": flat(f"{FRONT}.teacher_token.weight", 2),
    "[audio_spectrogram_transformer.]embeddings.position_embeddings": flat(f"{FRONT}.positions.weight"),
    "[audio_spectrogram_transformer.]embeddings.patch_embeddings.projection.*": f"{FRONT}.patches.*",
    **{
        f"[audio_spectrogram_transformer.]{theirs}": ours
        for theirs, ours in {
            **{f"layers.*.attention.{n}_proj.*": f"layers.*.attention.{n}_proj.*" for n in "qkvo"},
            "layers.*.mlp.fc1.*": "layers.*.ffn.up_proj.*",
            "layers.*.mlp.fc2.*": "layers.*.ffn.down_proj.*",
            "layers.*.layernorm_before.*": "layers.*.attention_norm.*",
            "layers.*.layernorm_after.*": "layers.*.ffn_norm.*",
            **{
                f"encoder.layer.*.attention.attention.{theirs}.*": f"layers.*.attention.{ours}_proj.*"
                for theirs, ours in {"query": "q", "key": "k", "value": "v"}.items()
            },
            "encoder.layer.*.attention.output.dense.*": "layers.*.attention.o_proj.*",
            "encoder.layer.*.intermediate.dense.*": "layers.*.ffn.up_proj.*",
            "encoder.layer.*.output.dense.*": "layers.*.ffn.down_proj.*",
            "encoder.layer.*.layernorm_before.*": "layers.*.attention_norm.*",
            "encoder.layer.*.layernorm_after.*": "layers.*.ffn_norm.*",
            "layernorm.*": "final_norm.*",
        }.items()
    },
    "classifier.layernorm.*": "pooling.norm.*",
    "classifier.dense.*": "classifier.*",
}


def _wave_weights(base: str) -> Any:
    """A function of a file that gives the names of its tensors."""
    return lambda config: _wave_names(config, base)


def _wave_names(config: Config, base: str) -> Weights:
    """Names of wav2vec 2.0's kin, whose norms depend on the order of norm and sublayer."""
    stable, within = config.flag("do_stable_layer_norm", default=False).value, f"[{base}.]"
    layers, ours = f"{within}encoder.layers.*", "layers.*"
    return {
        **wave_names(config, within),
        f"{within}feature_projection.layer_norm.*": f"{FRONT}.input_norm.*",
        f"{within}feature_projection.projection.*": f"{FRONT}.project.*",
        **_position_layers(config, f"{within}encoder.pos_conv_embed.layers"),
        f"{within}encoder.layer_norm.*": "final_norm.*" if stable else f"{FRONT}.norm.*",
        **{f"{layers}.attention.{n}_proj.*": f"{ours}.attention.{n}_proj.*" for n in "qkv"},
        f"{layers}.attention.out_proj.*": f"{ours}.attention.o_proj.*",
        f"{within}encoder.layers.0.attention.rel_attn_embed.weight": "score_bias.weight",
        f"{layers}.attention.gru_rel_pos_linear.*": f"{ours}.attention.gate_proj.*",
        f"{layers}.attention.gru_rel_pos_const": f"{ours}.attention.gate_factor.weight",
        f"{layers}.layer_norm.*": f"{ours}.attention_norm.*",
        f"{layers}.feed_forward.intermediate_dense.*": f"{ours}.ffn.up_proj.*",
        f"{layers}.feed_forward.output_dense.*": f"{ours}.ffn.down_proj.*",
        f"{layers}.final_layer_norm.*": f"{ours}.ffn_norm.*",
    }


def _position_layers(config: Config, theirs: str) -> Weights:
    """Names of several layers of convolved positions (data2vec)."""
    if config.get("conv_pos_kernel_size", default=None) is None:
        return {}
    names: dict[str, Rule] = {}
    for i in range(config.size("num_conv_pos_embeddings").value):
        ours = f"{FRONT}.positions{i or ''}"
        names |= {f"{theirs}.{i}.conv.bias": f"{ours}.bias", f"{theirs}.{i}.conv.weight": f"{ours}.direction"}
    return names


def _omni_asr_names(config: Config) -> Weights:
    """Names of Omnilingual ASR: those of wav2vec 2.0, under other modules."""
    inner = config.inner("audio_config", OMNI_ASR)
    theirs, layers, ours = "model.audio_tower", "model.audio_tower.layers.*", "layers.*"
    names: dict[str, Rule] = {}
    for i in range(len(sizes(inner, "conv_dim").value)):
        convolution = f"{theirs}.subsampling.conv_layers.{i}"
        names |= {f"{convolution}.conv.*": f"{FRONT}.conv{i}.*"}
        names |= {f"{convolution}.layer_norm.*": f"{FRONT}.conv{i}_norm.*"}
    return {
        **names,
        f"{theirs}.subsampling.layer_norm.*": f"{FRONT}.input_norm.*",
        f"{theirs}.subsampling.projection.*": f"{FRONT}.project.*",
        f"{theirs}.encode_positions.conv.bias": f"{FRONT}.positions.bias",
        f"{theirs}.encode_positions.conv.weight": f"{FRONT}.positions.direction",
        f"{theirs}.layer_norm.*": "final_norm.*",
        **{f"{layers}.attention.{n}_proj.*": f"{ours}.attention.{n}_proj.*" for n in "qkv"},
        f"{layers}.attention.out_proj.*": f"{ours}.attention.o_proj.*",
        f"{layers}.layer_norm.*": f"{ours}.attention_norm.*",
        f"{layers}.feed_forward.intermediate_dense.*": f"{ours}.ffn.up_proj.*",
        f"{layers}.feed_forward.output_dense.*": f"{ours}.ffn.down_proj.*",
        f"{layers}.final_layer_norm.*": f"{ours}.ffn_norm.*",
        "ctc_head.*": "classifier.*",
    }


FAMILIES = {
    "audio-spectrogram-transformer": Family(
        "AST: ASTConfig, ASTModel, ASTForAudioClassification.", _ast, AST
    ),
    "wav2vec2": Family(
        "wav2vec 2.0: Wav2Vec2Config, Wav2Vec2Model, Wav2Vec2ForCTC.", _wav2vec2, _wave_weights("wav2vec2")
    ),
    "hubert": Family("HuBERT: HubertConfig, HubertModel, HubertForCTC.", _hubert, _wave_weights("hubert")),
    "unispeech": Family(
        "UniSpeech: UniSpeechConfig, UniSpeechModel, UniSpeechForCTC.", _unispeech, _wave_weights("unispeech")
    ),
    "unispeech-sat": Family(
        "UniSpeech-SAT: UniSpeechSatConfig, UniSpeechSatModel, UniSpeechSatForCTC.",
        _unispeech_sat,
        _wave_weights("unispeech_sat"),
    ),
    "wavlm": Family("WavLM: WavLMConfig, WavLMModel, WavLMForCTC.", _wavlm, _wave_weights("wavlm")),
    "data2vec-audio": Family(
        "data2vec for sounds: Data2VecAudioConfig, Data2VecAudioModel, Data2VecAudioForCTC.",
        _data2vec,
        _wave_weights("data2vec_audio"),
    ),
    "omniasr_ctc": Family("Omnilingual ASR: OmniASRCTCConfig, OmniASRForCTC.", _omni_asr, _omni_asr_names),
}
