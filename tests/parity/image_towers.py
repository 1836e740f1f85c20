"""Further encoders of images, a tiny config each."""

from parity.towers import BASE, BEIT, CLIP, DINOV2, FIXED, RESIZED, SIGLIP, SQUARE, Rising, Tower

LOGITS = "logits"
RATIO = {key: value for key, value in BASE.items() if key != "intermediate_size"} | {"mlp_ratio": 3}
MAE = {**BASE, "model_type": "vit_mae", "mask_ratio": 0.4}
D2V = {**BEIT, "model_type": "data2vec-vision"}


def both(kind, vision, **more):
    """A config of two encoders of which the one of images is this."""
    inner = {key: value for key, value in vision.items() if key != "model_type"}
    return {"model_type": kind, "vision_config": inner, **more}


# noise that grows keeps the first patches
IMAGES = {
    "vit-mae": Tower(MAE, "ViTMAEModel", sizes=FIXED, given={"noise": Rising(9)}),
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
}
"""By name."""
