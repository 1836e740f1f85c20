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
    forward, `kind` is what it reads.
    """

    config: Mapping[str, Any]
    cls: str
    answer: str = "last_hidden_state"
    sizes: tuple[tuple[int, ...], ...] = ((24, 32), (40, 24))
    given: Mapping[str, Any] | None = None
    kind: str = "image"

    def medium(self, size: tuple[int, ...]) -> Medium:
        """What `archcli flops` is asked for: frames are the longest side of a spectrogram."""
        return Medium(self.kind, size if self.kind == "image" else (max(size),))

    def shape(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the input behind the batch."""
        return (3, *size) if self.kind == "image" else size


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
TOWERS |= {
    "whisper": Tower(WHISPER, "WhisperForAudioClassification", "logits", ((10, 30),), kind="frames"),
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
}
