"""Encoders of images whose grid becomes coarser: a tiny config each, with sizes that are all different."""

from __future__ import annotations

from typing import Any

from parity.towers import BASE, EPS, FIXED, Rising, Tower

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
PVT: dict[str, Any] = {
    "model_type": "pvt",
    "image_size": 32,
    "num_encoder_blocks": 3,
    "depths": [1, 2, 1],
    "sequence_reduction_ratios": [4, 2, 1],
    "hidden_sizes": [8, 12, 20],
    "patch_sizes": [4, 2, 2],
    "strides": [4, 2, 2],
    "num_attention_heads": [1, 2, 5],
    "mlp_ratios": [2, 3, 2],
    "layer_norm_eps": EPS,
}
MOBILE: dict[str, Any] = {
    "model_type": "mobilevit",
    "image_size": 64,
    "hidden_sizes": [12, 20, 28],
    "neck_hidden_sizes": [8, 8, 10, 14, 18, 22, 26],
    "num_attention_heads": 4,
    "layer_norm_eps": EPS,
}
MOBILE2: dict[str, Any] = {
    "model_type": "mobilevitv2",
    "image_size": 64,
    "base_attn_unit_dims": [32, 48, 64],
    "n_attn_blocks": [2, 1, 2],
    "width_multiplier": 0.5,
    "layer_norm_eps": EPS,
}
LEVIT: dict[str, Any] = {
    "model_type": "levit",
    "image_size": 80,
    "hidden_sizes": [16, 24, 28],
    "num_attention_heads": [2, 3, 4],
    "depths": [2, 1, 1],
    "key_dim": [4, 5, 6],
    "mlp_ratio": [2, 1, 3],
    "attention_ratio": [2, 3, 1],
}
SWIN2: dict[str, Any] = {
    "model_type": "swinv2",
    "image_size": 48,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [2, 3],
    "num_heads": [2, 4],
    "window_size": 4,
    "pretrained_window_sizes": [0, 0],
    "mlp_ratio": 1.5,
    "layer_norm_eps": EPS,
}
MAE = {**BASE, "model_type": "vit_mae", "mask_ratio": 0.4}
SWIFT: dict[str, Any] = {
    "model_type": "swiftformer",
    "image_size": 32,
    "depths": [2, 1, 2],
    "embed_dims": [8, 8, 14],
    "downsamples": [False, True, True],
    "mlp_ratio": 3,
    "layer_scale_init_value": 0.3,
    "batch_norm_eps": EPS,
}
VITDET: dict[str, Any] = {
    "model_type": "vitdet",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "mlp_ratio": 2,
    "image_size": 40,
    "pretrain_image_size": 40,
    "patch_size": 8,
    "layer_norm_eps": EPS,
}

HIERARCHIES = {
    "vitdet": Tower(VITDET, "VitDetModel", sizes=((40, 40),)),
    "vitdet-windows": Tower(
        {
            **VITDET,
            "window_size": 3,
            "window_block_indices": [0, 2],
            "residual_block_indices": [1],
            "use_relative_position_embeddings": True,
            "qkv_bias": False,
        },
        "VitDetModel",
        sizes=((40, 40),),
    ),
    "vitdet-plain-windows": Tower(
        {**VITDET, "window_size": 2, "window_block_indices": [1], "residual_block_indices": [2]},
        "VitDetModel",
        sizes=((40, 40),),
    ),
    "swiftformer": Tower(SWIFT, "SwiftFormerModel", sizes=((32, 32), (40, 28))),
    "swiftformer-labels": Tower(
        {**SWIFT, "use_layer_scale": False, "downsamples": [True, True, True], "num_labels": 5},
        "SwiftFormerForImageClassification",
        LOGITS,
        ((32, 32),),
    ),
    # noise that grows keeps the first patches
    "vit-mae": Tower(MAE, "ViTMAEModel", sizes=FIXED, given={"noise": Rising(9)}),
    "swinv2": Tower(SWIN2, "Swinv2Model", "pooler_output", ((48, 48), (40, 28))),
    # the second stage is one window
    "swinv2-labels": Tower(
        {**SWIN2, "window_size": 6, "qkv_bias": False, "pretrained_window_sizes": [3, 0], "num_labels": 5},
        "Swinv2ForImageClassification",
        LOGITS,
        ((48, 48), (52, 60)),
    ),
    "levit": Tower(LEVIT, "LevitModel", "pooler_output", ((80, 80),)),
    "levit-labels": Tower(
        {
            **LEVIT,
            "mlp_ratio": [2, 0, 3],
            "down_ops": [["Subsample", 3, 5, 2, 2, 2], ["Subsample", 4, 3, 1, 0, 2], [""]],
            "num_labels": 5,
        },
        "LevitForImageClassification",
        LOGITS,
        ((80, 80),),
    ),
    "mobilevit": Tower(MOBILE, "MobileViTModel", "pooler_output", ((64, 64), (64, 128))),
    "mobilevit-labels": Tower(
        {**MOBILE, "qkv_bias": False, "num_labels": 5, "conv_kernel_size": 5},
        "MobileViTForImageClassification",
        LOGITS,
        ((64, 64),),
    ),
    "mobilevitv2": Tower(MOBILE2, "MobileViTV2Model", "pooler_output", ((64, 64), (64, 128))),
    "mobilevitv2-labels": Tower(
        {**MOBILE2, "width_multiplier": 1.3, "ffn_multiplier": 3, "num_labels": 5},
        "MobileViTV2ForImageClassification",
        LOGITS,
        ((64, 64),),
    ),
    "pvt": Tower(PVT, "PvtModel", sizes=((32, 32),)),
    "pvt-labels": Tower(
        {**PVT, "qkv_bias": False, "num_labels": 5}, "PvtForImageClassification", LOGITS, ((32, 32),)
    ),
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
