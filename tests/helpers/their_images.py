"""What a class that reads images says of itself on the meta device: parameters, FLOPs of its usual image.

None of our code takes part. FLOP = 2 multiply-adds, matrix products and convolutions, one image or video,
attention over all pairs. The usual image has the size that the config states, else 224 x 224.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from their_class import SHOWN

USUAL = 224
VIDEOS = {
    "timesformer": "pixel_values",
    "videomae": "pixel_values",
    "vivit": "pixel_values",
    "videoprism_vision_model": "pixel_values_videos",
}
"""Types that read frames [B, T, C, H, W], and the argument that has them."""
PATCHED = ("siglip2", "siglip2_vision_model")
"""Types whose processor cuts the patches."""
MAPPINGS = ("image", "image-classification")
"""The mappings whose classes read images."""


def vision(config: Any) -> Any:
    """The part of a config that says what is read."""
    return getattr(config, "vision_config", config)


def usual(config: Any) -> tuple[int, ...]:
    """Height and width of the usual image; of a video the number of frames before them."""
    stated = getattr(config, "image_size", None) or getattr(vision(config), "image_size", None) or USUAL
    sides = (stated, stated) if isinstance(stated, int) else tuple(stated)
    return (int(config.num_frames), *sides) if config.model_type in VIDEOS else sides


def given(config: Any, size: tuple[int, ...]) -> dict[str, Any]:
    """The arguments of the forward for an image or a video of this size."""
    kind, channels = config.model_type, int(getattr(vision(config), "num_channels", None) or 3)
    if kind in VIDEOS:
        return {VIDEOS[kind]: torch.empty(1, size[0], channels, *size[1:])}
    if kind in PATCHED:
        patch = vision(config).patch_size
        h, w = size[0] // patch, size[1] // patch
        pixels = torch.empty(1, h * w, channels * patch**2)
        shapes = torch.tensor([[h, w]], device="cpu")
        return {"pixel_values": pixels, "pixel_attention_mask": pixels[:, :, 0] > 0, "spatial_shapes": shapes}
    return {"inputs" if kind == "perceiver" else "pixel_values": torch.empty(1, channels, *size)}


def figures_of_images(model: Any) -> dict[str, Any]:
    """All parameters, tied ones once, and FLOPs of the usual image; None with a reason where hidden."""
    size, counter = usual(model.config), FlopCounterMode(display=False)
    params = sum(p.numel() for p in model.parameters())
    try:
        with torch.device("meta"), torch.no_grad(), counter:
            model(**given(model.config, size))
    except Exception as error:  # noqa: BLE001 what any class may raise on meta
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return {"params": params, "flops": None, "image": list(size), "hidden": reason[:SHOWN]}
    return {"params": params, "flops": counter.get_total_flops(), "image": list(size)}
