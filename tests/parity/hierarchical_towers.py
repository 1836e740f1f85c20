"""Encoders of images whose grid becomes coarser: a tiny config each, with sizes that are all different."""

from __future__ import annotations

from typing import Any

from parity.towers import EPS, Tower

LOGITS = "logits"
FOCAL: dict[str, Any] = {
    "model_type": "focalnet",
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [2, 1],
    "focal_levels": [2, 1],
    "focal_windows": [3, 5],
    "mlp_ratio": 3.0,
    "layer_norm_eps": EPS,
}
HGNET: dict[str, Any] = {
    "model_type": "hgnet_v2",
    "depths": [1, 1],
    "hidden_sizes": [20, 28],
    "stem_channels": [3, 6, 10],
    "stage_in_channels": [10, 20],
    "stage_mid_channels": [7, 9],
    "stage_out_channels": [20, 28],
    "stage_num_blocks": [2, 2],
    "stage_downsample": [False, True],
    "stage_downsample_strides": [2, 2],
    "stage_light_block": [False, True],
    "stage_kernel_size": [3, 5],
    "stage_numb_of_layers": [2, 3],
    "num_labels": 5,
}

HIERARCHIES = {
    "focalnet": Tower(FOCAL, "FocalNetModel", "pooler_output", ((32, 32), (36, 29))),
    "focalnet-labels": Tower(
        {
            **FOCAL,
            "use_conv_embed": True,
            "use_layerscale": True,
            "layerscale_value": 0.3,
            "use_post_layernorm": True,
            "use_post_layernorm_in_modulation": True,
            "normalize_modulator": True,
            "num_labels": 5,
        },
        "FocalNetForImageClassification",
        LOGITS,
        ((32, 32), (36, 29)),
    ),
    "hgnet-v2": Tower(HGNET, "HGNetV2ForImageClassification", LOGITS, ((32, 32), (37, 30))),
    "hgnet-v2-affine": Tower(
        {**HGNET, "use_learnable_affine_block": True, "hidden_act": "silu"},
        "HGNetV2ForImageClassification",
        LOGITS,
        ((32, 32),),
    ),
}
"""By name."""
