"""Further encoders of images: convolutional networks, pyramids and hybrids, a tiny config each."""

from parity.towers import (
    BASE,
    BEIT,
    CLIP,
    CONVNEXT,
    DINOV2,
    EPS,
    FIXED,
    RESIZED,
    SIGLIP,
    SQUARE,
    SWIN,
    Tower,
)

ODD = ((32, 32), (45, 38))
LARGE = ((64, 64), (77, 70))
RESNET = {
    "model_type": "resnet",
    "num_channels": 3,
    "embedding_size": 8,
    "hidden_sizes": [16, 24, 40],
    "depths": [2, 1, 2],
}
IMAGES = {
    "resnet": Tower({**RESNET, "downsample_in_bottleneck": True}, "ResNetModel", "pooler_output", ODD),
    "resnet-basic": Tower(
        {**RESNET, "layer_type": "basic", "hidden_act": "silu", "num_labels": 5},
        "ResNetForImageClassification",
        "logits",
        ODD,
    ),
    "regnet": Tower(
        {**RESNET, "model_type": "regnet", "groups_width": 4}, "RegNetModel", "pooler_output", ODD
    ),
    "regnet-x": Tower(
        {**RESNET, "model_type": "regnet", "groups_width": 4, "layer_type": "x", "num_labels": 5},
        "RegNetForImageClassification",
        "logits",
        ODD,
    ),
}
"""By name."""

MOBILE = {"num_channels": 3, "image_size": 64, "depth_multiplier": 0.25, "num_labels": 5}
EFFICIENT = {
    "model_type": "efficientnet",
    "image_size": 64,
    "width_coefficient": 0.25,
    "depth_coefficient": 1.2,
    "hidden_dim": 320,
    "depthwise_padding": [2],
    "batch_norm_momentum": 0.9,
}
LCNET = [
    [[3, 8, 12, 1, False]],
    [[5, 12, 16, 2, False], [3, 16, 16, 1, True]],
    [[3, 16, 24, 1, False]],
    [[3, 24, 24, 1, True]],
    [[5, 24, 32, 2, True]],
]
TEXTNET = {
    "model_type": "textnet",
    "image_size": [64, 64],
    "stem_out_channels": 8,
    "hidden_sizes": [8, 8, 12, 16, 20],
    "num_labels": 5,
}
LOGITS = "logits"
IMAGES |= {
    "mobilenet-v1": Tower(
        {**MOBILE, "model_type": "mobilenet_v1"}, "MobileNetV1ForImageClassification", LOGITS, LARGE
    ),
    "mobilenet-v1-even": Tower(
        {**MOBILE, "model_type": "mobilenet_v1", "tf_padding": False},
        "MobileNetV1Model",
        "pooler_output",
        LARGE,
    ),
    "mobilenet-v2": Tower(
        {**MOBILE, "model_type": "mobilenet_v2"}, "MobileNetV2Model", "pooler_output", LARGE
    ),
    "mobilenet-v2-expanding": Tower(
        {
            **MOBILE,
            "model_type": "mobilenet_v2",
            "first_layer_is_expansion": False,
            "finegrained_output": False,
        },
        "MobileNetV2ForImageClassification",
        LOGITS,
        LARGE,
    ),
    "efficientnet": Tower(EFFICIENT, "EfficientNetModel", "pooler_output", LARGE),
    "efficientnet-labels": Tower(
        {**EFFICIENT, "num_labels": 5}, "EfficientNetForImageClassification", LOGITS, ((64, 64), (77, 80))
    ),
    "pp-lcnet": Tower(
        {
            "model_type": "pp_lcnet",
            "block_configs": LCNET,
            "class_expand": 24,
            "stem_channels": 8,
            "divisor": 4,
            "num_labels": 5,
        },
        "PPLCNetForImageClassification",
        "last_hidden_state",
        LARGE,
    ),
    "textnet": Tower(TEXTNET, "TextNetForImageClassification", LOGITS, LARGE),
}

RATIO = {key: value for key, value in BASE.items() if key != "intermediate_size"} | {"mlp_ratio": 3}
D2V = {**BEIT, "model_type": "data2vec-vision"}


def both(kind, vision, **more):
    """A config of two encoders of which the one of images is this."""
    inner = {key: value for key, value in vision.items() if key != "model_type"}
    return {"model_type": kind, "vision_config": inner, **more}


IMAGES |= {
    "data2vec": Tower(D2V, "Data2VecVisionModel", sizes=FIXED),
    "data2vec-labels": Tower(
        {
            **D2V,
            "use_shared_relative_position_bias": True,
            "use_relative_position_bias": False,
            "num_labels": 5,
        },
        "Data2VecVisionForImageClassification",
        LOGITS,
        FIXED,
    ),
    "dpt": Tower({**BASE, "model_type": "dpt"}, "DPTModel", "pooler_output", SQUARE),
    "pixio": Tower({**RATIO, "model_type": "pixio", "n_cls_tokens": 3}, "PixioModel", sizes=SQUARE),
    "tipsv2": Tower(
        {**DINOV2, "model_type": "tipsv2_vision_model", "num_register_tokens": 2, "use_swiglu_ffn": True},
        "Tipsv2VisionModel",
        sizes=SQUARE,
    ),
    "clip-labels": Tower(both("clip", CLIP, num_labels=5), "CLIPForImageClassification", LOGITS, FIXED),
    "metaclip-labels": Tower(
        both("metaclip_2", CLIP, num_labels=5), "MetaClip2ForImageClassification", LOGITS, FIXED
    ),
    "metaclip": Tower(
        {**CLIP, "model_type": "metaclip_2_vision_model"}, "MetaClip2VisionModel", "pooler_output", FIXED
    ),
    "siglip-labels": Tower(
        both("siglip", SIGLIP, num_labels=5), "SiglipForImageClassification", LOGITS, SQUARE, RESIZED
    ),
    "mlcd": Tower(
        {**BASE, "model_type": "mlcd_vision_model"}, "MLCDVisionModel", "pooler_output", ((24, 24), (40, 24))
    ),
    "donut-swin": Tower({**SWIN, "model_type": "donut-swin"}, "DonutSwinModel", "pooler_output", ((48, 48),)),
    "donut-swin-labels": Tower(
        {**SWIN, "model_type": "donut-swin", "num_labels": 5},
        "DonutSwinForImageClassification",
        LOGITS,
        ((48, 48), (40, 28)),
    ),
    "convnextv2": Tower(
        {**CONVNEXT, "model_type": "convnextv2"}, "ConvNextV2Model", "pooler_output", ((32, 32), (40, 24))
    ),
    "convnextv2-labels": Tower(
        {**CONVNEXT, "model_type": "convnextv2", "num_labels": 5},
        "ConvNextV2ForImageClassification",
        LOGITS,
        ((32, 32),),
    ),
    "dinov3-convnext": Tower(
        {k: v for k, v in CONVNEXT.items() if k not in ("num_stages", "patch_size")}
        | {"model_type": "dinov3_convnext"},
        "DINOv3ConvNextModel",
        "pooler_output",
        ((32, 32), (40, 24)),
    ),
}

PYRAMID = {
    "model_type": "segformer",
    "num_channels": 3,
    "num_encoder_blocks": 3,
    "depths": [1, 2, 1],
    "sr_ratios": [4, 2, 1],
    "hidden_sizes": [8, 12, 20],
    "patch_sizes": [7, 3, 3],
    "strides": [4, 2, 2],
    "num_attention_heads": [1, 2, 5],
    "mlp_ratios": [2, 3, 2],
}
POOLS = {
    "model_type": "poolformer",
    "num_encoder_blocks": 3,
    "depths": [1, 2, 1],
    "hidden_sizes": [8, 12, 20],
    "patch_sizes": [7, 3, 3],
    "strides": [4, 2, 2],
    "padding": [2, 1, 1],
    "mlp_ratio": 2.0,
    "layer_scale_init_value": 0.3,
}
IMAGES |= {
    "segformer": Tower(PYRAMID, "SegformerModel", sizes=LARGE),
    "segformer-labels": Tower(
        {**PYRAMID, "num_labels": 5, "hidden_act": "relu"},
        "SegformerForImageClassification",
        LOGITS,
        LARGE,
    ),
    "glpn": Tower({**PYRAMID, "model_type": "glpn"}, "GLPNModel", sizes=LARGE),
    "pvt-v2": Tower({**PYRAMID, "model_type": "pvt_v2", "qkv_bias": False}, "PvtV2Model", sizes=LARGE),
    "pvt-v2-labels": Tower(
        {**PYRAMID, "model_type": "pvt_v2", "num_labels": 5, "layer_norm_eps": EPS},
        "PvtV2ForImageClassification",
        LOGITS,
        LARGE,
    ),
    "poolformer": Tower(POOLS, "PoolFormerModel", sizes=LARGE),
    "poolformer-labels": Tower(
        {**POOLS, "use_layer_scale": False, "num_labels": 5},
        "PoolFormerForImageClassification",
        LOGITS,
        LARGE,
    ),
}

BIT = {
    "model_type": "bit",
    "embedding_size": 8,
    "hidden_sizes": [16, 24, 48],
    "depths": [2, 1, 2],
    "num_groups": 4,
}
VIDEO = {**BASE, "num_frames": 5, "tubelet_size": [2, 8, 6]}
IMAGES |= {
    "bit": Tower(BIT, "BitModel", "pooler_output", LARGE),
    "bit-labels": Tower({**BIT, "num_labels": 5}, "BitForImageClassification", LOGITS, LARGE),
    "vivit": Tower(
        {**VIDEO, "model_type": "vivit"}, "VivitModel", "pooler_output", ((5, 24, 24),), kind="video"
    ),
    "videomae": Tower(
        {**VIDEO, "model_type": "videomae", "tubelet_size": 2, "use_mean_pooling": False, "num_frames": 4},
        "VideoMAEModel",
        sizes=((4, 24, 24),),
        kind="video",
    ),
    "videomae-mean": Tower(
        {**VIDEO, "model_type": "videomae", "tubelet_size": 2, "qv_bias": False, "num_frames": 4},
        "VideoMAEModel",
        sizes=((4, 24, 24),),
        kind="video",
    ),
}
