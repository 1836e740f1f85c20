"""Encoders of images and sounds: a tiny config each, with sizes that are all different."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from archcli.modules.spec.request import Medium

EPS = 0.01
LABELS = {f"label {i}": i for i in range(5)}


@dataclass(frozen=True)
class Tower:
    """A config, the class that is made of it, and which of its output is ours.

    `sizes` are those of the inputs, the first being the config's own. `given` are further arguments of its
    forward, `kind` is what it reads. A `channel` stands before the samples of a wave.
    """

    config: Mapping[str, Any]
    cls: str
    answer: str = "last_hidden_state"
    sizes: tuple[tuple[int, ...], ...] = ((24, 32), (40, 24))
    given: Mapping[str, Any] | None = None
    kind: str = "image"
    channel: bool = False

    def read(self, features: Any) -> Any:
        """What their class reads of these features."""
        return features[:, None] if self.channel else features

    def medium(self, size: tuple[int, ...]) -> Medium:
        """What `archcli flops` is asked for: frames are the longest side of a spectrogram."""
        return Medium(self.kind, size if self.kind in ("image", "video") else (max(size),))

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the input behind the batch."""
        frames = (size[0], 3, *size[1:])
        return {"image": (3, *size), "video": frames}.get(self.kind, size)


class Rising(int):
    """So many growing numbers for each image: what a class draws at random."""

    def of(self, torch: Any, batch: int) -> Any:
        """[B, n]."""
        return torch.arange(float(self)).expand(batch, int(self))


BASE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "hidden_act": "gelu",
    "image_size": 24,
    "patch_size": 8,
    "num_channels": 3,
    "layer_norm_eps": EPS,
}
SQUARE = ((24, 24), (40, 24))
FIXED = ((24, 24),)
RESIZED = {"interpolate_pos_encoding": True}
VIT = {**BASE, "model_type": "vit"}
DEIT = {**BASE, "model_type": "deit", "num_labels": 5}
BEIT = {**BASE, "model_type": "beit", "layer_scale_init_value": 0.5, "use_relative_position_bias": True}
DINOV2 = {key: value for key, value in BASE.items() if key != "intermediate_size"}
DINOV2 |= {"model_type": "dinov2", "mlp_ratio": 3, "layerscale_value": 0.7}
DINOV3 = {**BASE, "model_type": "dinov3_vit", "num_register_tokens": 2, "layerscale_value": 0.6}
SIGLIP = {**BASE, "model_type": "siglip_vision_model", "hidden_act": "gelu_pytorch_tanh"}
NAFLEX = {**SIGLIP, "model_type": "siglip2_vision_model", "num_patches": 9}
AIMV2 = {**BASE, "model_type": "aimv2_vision_model", "hidden_act": "silu", "rms_norm_eps": EPS}
CLIP = {**BASE, "model_type": "clip_vision_model", "hidden_act": "quick_gelu", "projection_dim": 20}

TOWERS = {
    "vit": Tower({**VIT, "qkv_bias": False}, "ViTModel", "pooler_output", SQUARE, RESIZED),
    "vit-labels": Tower({**VIT, "num_labels": 5}, "ViTForImageClassification", "logits", SQUARE, RESIZED),
    "deit": Tower(DEIT, "DeiTForImageClassificationWithTeacher", "logits", SQUARE, RESIZED),
    "beit": Tower({**BEIT, "num_labels": 5}, "BeitForImageClassification", "logits", FIXED),
    "beit-shared": Tower(
        {
            **BEIT,
            "use_relative_position_bias": False,
            "use_shared_relative_position_bias": True,
            "use_absolute_position_embeddings": True,
            "use_mean_pooling": False,
        },
        "BeitModel",
        "pooler_output",
        FIXED,
    ),
    "dinov2": Tower(DINOV2, "Dinov2Model", sizes=SQUARE),
    "dinov2-labels": Tower(
        {**DINOV2, "use_swiglu_ffn": True, "num_labels": 5}, "Dinov2ForImageClassification", "logits", SQUARE
    ),
    "dinov2-registers": Tower(
        {**DINOV2, "model_type": "dinov2_with_registers", "num_register_tokens": 3},
        "Dinov2WithRegistersModel",
        sizes=SQUARE,
    ),
    "dinov3": Tower(DINOV3, "DINOv3ViTModel", sizes=((24, 24), (40, 24), (16, 48))),
    "dinov3-gated": Tower({**DINOV3, "use_gated_mlp": True, "key_bias": True}, "DINOv3ViTModel"),
    "clip": Tower(CLIP, "CLIPVisionModelWithProjection", "image_embeds", SQUARE, RESIZED),
    "clip-base": Tower(CLIP, "CLIPVisionModel", "pooler_output", FIXED),
    "siglip": Tower(SIGLIP, "SiglipVisionModel", "pooler_output", SQUARE, RESIZED),
    "siglip-headless": Tower({**SIGLIP, "vision_use_head": False}, "SiglipVisionModel", sizes=FIXED),
    "siglip2": Tower(NAFLEX, "Siglip2VisionModel", "pooler_output", ((24, 24), (32, 16))),
    "aimv2": Tower(AIMV2, "Aimv2VisionModel", "pooler_output", FIXED),
    "aimv2-headless": Tower({**AIMV2, "use_head": False, "qkv_bias": True}, "Aimv2VisionModel", sizes=FIXED),
}
"""By name."""

AST = {
    "model_type": "audio-spectrogram-transformer",
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "layer_norm_eps": EPS,
    "patch_size": 8,
    "frequency_stride": 5,
    "time_stride": 6,
    "max_length": 40,
    "num_mel_bins": 18,
}
WAVE = {
    "model_type": "wav2vec2",
    "vocab_size": 11,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "layer_norm_eps": EPS,
    "conv_dim": [12, 14],
    "conv_kernel": [6, 3],
    "conv_stride": [3, 2],
    "num_conv_pos_embeddings": 6,
    "num_conv_pos_embedding_groups": 4,
}
STABLE = {**WAVE, "do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True}
WHISPER = {
    "model_type": "whisper",
    "d_model": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 40,
    "num_mel_bins": 10,
    "max_source_positions": 15,
    "vocab_size": 53,
    "pad_token_id": 1,
    "classifier_proj_size": 20,
    "num_labels": 5,
}
SOUNDS = {
    "ast": Tower({**AST, "num_labels": 5}, "ASTForAudioClassification", "logits", ((40, 18),), kind="frames"),
    "ast-base": Tower(AST, "ASTModel", "pooler_output", ((40, 18),), kind="frames"),
    "wav2vec2": Tower(WAVE, "Wav2Vec2Model", sizes=((200,), (331,)), kind="samples"),
    "wav2vec2-stable": Tower(STABLE, "Wav2Vec2Model", sizes=((200,),), kind="samples"),
    "wav2vec2-ctc": Tower(
        {**WAVE, "num_conv_pos_embeddings": 5}, "Wav2Vec2ForCTC", "logits", ((200,),), kind="samples"
    ),
    "hubert": Tower(
        {**WAVE, "model_type": "hubert", "feat_proj_layer_norm": False},
        "HubertModel",
        sizes=((200,),),
        kind="samples",
    ),
    "whisper": Tower(WHISPER, "WhisperForAudioClassification", "logits", ((10, 30),), kind="frames"),
}
TOWERS |= SOUNDS

CONFORMER = {
    **{key: value for key, value in WAVE.items() if key != "vocab_size"},
    "model_type": "wav2vec2-conformer",
    "vocab_size": 11,
    "conv_depthwise_kernel_size": 5,
}
BERT = {
    "model_type": "wav2vec2-bert",
    "vocab_size": 11,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "layer_norm_eps": EPS,
    "feature_projection_input_dim": 18,
    "left_max_position_embeddings": 3,
    "right_max_position_embeddings": 2,
    "conv_depthwise_kernel_size": 5,
}
NESTED = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_mel_bins": 16,
}
PARAKEET = {
    "model_type": "parakeet_ctc",
    "vocab_size": 11,
    "encoder_config": {
        **NESTED,
        "model_type": "parakeet_encoder",
        "conv_kernel_size": 5,
        "subsampling_conv_channels": 6,
    },
}
UNBIASED = {"attention_bias": False, "convolution_bias": False, "scale_input": False, "subsampling_factor": 4}
LASR = {
    "model_type": "lasr_ctc",
    "vocab_size": 11,
    "encoder_config": {
        **NESTED,
        "model_type": "lasr_encoder",
        "conv_kernel_size": 6,
        "subsampling_conv_channels": 10,
        "layer_norm_eps": EPS,
    },
}
WAVLM = {**WAVE, "model_type": "wavlm", "num_buckets": 12, "max_bucket_distance": 9}
STABILITY = {"do_stable_layer_norm": True, "feat_extract_norm": "layer"}
DATA2VEC = {
    **WAVE,
    "model_type": "data2vec-audio",
    "conv_pos_kernel_size": 5,
    "num_conv_pos_embeddings": 3,
    "num_conv_pos_embedding_groups": 4,
}
OMNI = {
    "model_type": "omniasr_ctc",
    "vocab_size": 11,
    "audio_config": {
        **{key: value for key, value in WAVE.items() if key != "vocab_size"},
        "model_type": "omniasr_audio",
    },
}
TOWERS |= {
    "conformer": Tower(CONFORMER, "Wav2Vec2ConformerModel", sizes=((200,), (331,)), kind="samples"),
    "conformer-plain": Tower(
        {**CONFORMER, "position_embeddings_type": None},
        "Wav2Vec2ConformerForCTC",
        "logits",
        ((200,),),
        kind="samples",
    ),
    "w2v-bert": Tower(BERT, "Wav2Vec2BertModel", sizes=((23, 18), (31, 18)), kind="frames"),
    "w2v-bert-relative": Tower(
        {**BERT, "position_embeddings_type": "relative"},
        "Wav2Vec2BertForCTC",
        "logits",
        ((23, 18),),
        kind="frames",
    ),
    "parakeet": Tower(PARAKEET, "ParakeetForCTC", "logits", ((90, 16), (75, 16)), kind="frames"),
    "parakeet-plain": Tower(
        {**PARAKEET, "encoder_config": {**PARAKEET["encoder_config"], **UNBIASED}},
        "ParakeetForCTC",
        "logits",
        ((90, 16),),
        kind="frames",
    ),
    "lasr": Tower(LASR, "LasrForCTC", "logits", ((90, 16), (75, 16)), kind="frames"),
    "wavlm": Tower(WAVLM, "WavLMModel", sizes=((200,), (331,)), kind="samples"),
    "wavlm-stable": Tower({**WAVLM, **STABILITY}, "WavLMForCTC", "logits", ((200,),), kind="samples"),
    "data2vec": Tower(DATA2VEC, "Data2VecAudioModel", sizes=((200,), (331,)), kind="samples"),
    "omniasr": Tower(OMNI, "OmniASRForCTC", "logits", ((200,),), kind="samples", channel=True),
}

CONVNEXT = {
    "model_type": "convnext",
    "num_channels": 3,
    "patch_size": 4,
    "num_stages": 3,
    "hidden_sizes": [8, 12, 20],
    "depths": [2, 1, 2],
    "layer_norm_eps": EPS,
    "layer_scale_init_value": 0.4,
    "image_size": 32,
}
TOWERS |= {
    "convnext": Tower(CONVNEXT, "ConvNextModel", "pooler_output", ((32, 32), (40, 24))),
    "convnext-labels": Tower(
        {**CONVNEXT, "layer_scale_init_value": 0.0, "num_labels": 5},
        "ConvNextForImageClassification",
        "logits",
        ((32, 32),),
    ),
}

SWIN = {
    "model_type": "swin",
    "num_channels": 3,
    "image_size": 48,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [2, 3],
    "num_heads": [2, 4],
    "window_size": 3,
    "mlp_ratio": 1.5,
    "layer_norm_eps": EPS,
}
TOWERS |= {
    "swin": Tower(SWIN, "SwinModel", "pooler_output", sizes=((48, 48), (40, 28))),
    "swin-labels": Tower(
        {**SWIN, "window_size": 6, "qkv_bias": False, "num_labels": 5},
        "SwinForImageClassification",
        "logits",
        ((52, 60),),
    ),
    # the second stage is one window: its windows stay. The class forgets the shift for good then
    "swin-small": Tower({**SWIN, "window_size": 6}, "SwinModel", "pooler_output", ((48, 48),)),
}

MSN = {**BASE, "model_type": "vit_msn"}
IJEPA = {**BASE, "model_type": "ijepa"}
TOWERS |= {
    "vit-msn": Tower(MSN, "ViTMSNModel", sizes=SQUARE, given=RESIZED),
    "vit-msn-labels": Tower({**MSN, "num_labels": 5}, "ViTMSNForImageClassification", "logits", FIXED),
    "ijepa": Tower(IJEPA, "IJepaModel", sizes=SQUARE, given=RESIZED),
    "ijepa-labels": Tower({**IJEPA, "num_labels": 5}, "IJepaForImageClassification", "logits", FIXED),
    "altclip": Tower(
        {**CLIP, "model_type": "altclip_vision_model"}, "AltCLIPVisionModel", "pooler_output", FIXED
    ),
    "chinese-clip": Tower(
        {**CLIP, "model_type": "chinese_clip_vision_model"}, "ChineseCLIPVisionModel", "pooler_output", FIXED
    ),
    "unispeech": Tower(
        {**STABLE, "model_type": "unispeech"}, "UniSpeechModel", sizes=((200,),), kind="samples"
    ),
    "unispeech-ctc": Tower(
        {**WAVE, "model_type": "unispeech", "num_ctc_classes": 11},
        "UniSpeechForCTC",
        "logits",
        ((200,),),
        kind="samples",
    ),
    "unispeech-sat": Tower(
        {**WAVE, "model_type": "unispeech-sat"}, "UniSpeechSatModel", sizes=((200,),), kind="samples"
    ),
    "wav2vec2-labels": Tower(
        {**WAVE, "classifier_proj_size": 20, "num_labels": 5},
        "Wav2Vec2ForSequenceClassification",
        "logits",
        ((200,),),
        kind="samples",
    ),
}

SEW = {**WAVE, "model_type": "sew", "squeeze_factor": 3}
PLACED = {"position_buckets": 8, "max_position_embeddings": 40, "feature_layer_norm_eps": 0.02}
SEWD = {**SEW, **PLACED, "model_type": "sew-d", "squeeze_factor": 2}
TOWERS |= {
    # 200 samples are 32 positions, 331 are 53: both leave a rest behind the squeezed ones
    "sew": Tower(SEW, "SEWModel", sizes=((200,), (331,)), kind="samples"),
    "sew-unprojected": Tower(
        {**SEW, "conv_dim": [12, 32], "squeeze_factor": 1}, "SEWModel", sizes=((200,),), kind="samples"
    ),
    "sew-ctc": Tower(
        {**SEW, "num_conv_pos_embeddings": 5, "feat_extract_norm": "layer", "conv_bias": True},
        "SEWForCTC",
        "logits",
        ((200,), (331,)),
        kind="samples",
    ),
    "sew-d": Tower(SEWD, "SEWDModel", sizes=((200,), (331,)), kind="samples"),
    "sew-d-ctc": Tower(
        {**SEWD, "share_att_key": False, "norm_rel_ebd": "none", "position_buckets": -1},
        "SEWDForCTC",
        "logits",
        ((200,),),
        kind="samples",
    ),
    "sew-d-labels": Tower(
        {**SEWD, "relative_attention": False, "norm_rel_ebd": "none", "num_labels": 5, "hidden_act": "gelu"},
        "SEWDForSequenceClassification",
        "logits",
        ((331,),),
        kind="samples",
    ),
}
