"""The input that a class of transformers takes for one usual image, by the names of its arguments.

A usual image is of the tower's own size, about 448 x 448 where a tower takes any size, and cut in tiles where
its processor would.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from math import isqrt
from typing import Any

import torch

Given = dict[str, Any]
Form = tuple[tuple[int, int], Given]
"""Height and width of an image, and what the class is given for it."""
AREA = 448
"""Height and width of an image whose size is free, in whole patches and blocks of them."""
WORDS = 16
"""Words of a question, or soft tokens on a side of an image that a class takes with their places."""
PROCESSED = {"florence2": 768}
"""The side that a processor resizes images to, of a tower that states none."""
ARIA = 980
"""The side that Aria's processor resizes images to."""
LEAST_ROWS = 32
"""Rows and columns of patches that Nemotron Omni's processor makes at least of a square image."""
TILES = 4
"""Tiles on a side that Idefics 3's processor cuts any image into by default."""


def vision(config: Any) -> Any:
    """The config of the vision tower, or the whole where it has none."""
    return getattr(config, "vision_config", None) or config


def first(config: Any, *names: str, default: Any = None) -> Any:
    """The first of these values that a config has, of a pair its first."""
    value = next((x for name in names if (x := getattr(config, name, None)) is not None), default)
    return value[0] if isinstance(value, list | tuple) else value


def pixels(*shape: int) -> torch.Tensor:
    """An image without a dark spot: classes leave out those that are all zeros."""
    return torch.ones(shape)


def own_side(config: Any) -> int:
    """The side of the tower's own images."""
    counts = getattr(config, "projector_patch_to_query_dict", None)
    if counts:  # Aria reads images of two sizes, and its processor makes 980 x 980 pixels of any
        patch, known = int(first(vision(config), "patch_size")), {*map(int, counts)}
        return ARIA if (ARIA // patch) ** 2 in known else isqrt(min(known)) * patch
    return int(first(vision(config), "image_size", default=PROCESSED.get(config.model_type, 224)))


def grid(config: Any, shape: str = "flat") -> Form:
    """Patches of an image of any size, in rows, with the number of them along each axis."""
    tower = vision(config)
    patch = first(tower, "patch_size")
    merge = first(tower, "spatial_merge_size", "merge_kernel_size", "merge_size") or first(
        config, "spatial_merge_size", default=2
    )
    frames = first(tower, "temporal_patch_size", "patch_temporal", default=1)
    channels = first(tower, "in_channels", "in_chans", "num_channels", default=3)
    n = max(1, round(AREA / (merge * patch))) * merge
    shapes = {
        "flat": (n * n, channels * frames * patch**2),
        "still": (n * n, channels * patch**2),
        "square": (n * n, channels, patch, patch),
        "batch": (1, n * n, channels, patch, patch),
    }
    numbers = torch.tensor([[1, n, n]])
    return (n * patch, n * patch), {"pixel_values": pixels(*shapes[shape]), "image_grid_thw": numbers}


def rows_and_columns(config: Any) -> Form:
    """Patches in rows, with their numbers of rows and columns."""
    patch = first(vision(config), "patch_size")
    n = max(round(AREA / 2 / patch) * 2, LEAST_ROWS)
    rows = pixels(n * n, 3 * patch * patch)
    return (n * patch, n * patch), {"pixel_values": rows, "image_grid_hw": torch.tensor([[n, n]])}


def naflex(config: Any) -> Form:
    """Patches in rows, with the shape of their grid and a mask."""
    patch = first(vision(config), "patch_size")
    n = round(AREA / 2 / patch) * 2
    inputs = {
        "pixel_values": pixels(1, n * n, 3 * patch * patch),
        "spatial_shapes": torch.tensor([[n, n]]),
        "pixel_attention_mask": torch.ones(1, n * n, dtype=torch.long),
    }
    return (n * patch, n * patch), inputs


def pinned(config: Any) -> Form:
    """Tiles of the size that the config lists, and an overview."""
    from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

    side = own_side(config)
    tiles = image_size_to_num_patches([side, side], config.image_grid_pinpoints, side)
    sizes = torch.tensor([[side, side]])
    return (side, side), {"pixel_values": pixels(1, tiles, 3, side, side), "image_sizes": sizes}


def sized(config: Any) -> Form:
    """An image with its size."""
    whole = first(vision(config), "patch_size") * first(config, "spatial_merge_size", default=1)
    side = max(1, min(AREA, own_side(config)) // whole) * whole
    return (side, side), {
        "pixel_values": pixels(1, 3, side, side),
        "image_sizes": torch.tensor([[side, side]]),
    }


def masked_tiles(config: Any) -> Form:
    """Tiles and an overview with a mask of each (Idefics 3), or one image (Idefics 2)."""
    split, patch = hasattr(config, "scale_factor"), first(vision(config), "patch_size")
    side = own_side(config) if split else AREA // patch * patch
    tiles = TILES * TILES + 1 if split else 1
    mask = torch.ones(1, tiles, side, side, dtype=torch.bool)
    return (side, side), {"pixel_values": pixels(1, tiles, 3, side, side), "pixel_attention_mask": mask}


def tiles_of_granite(config: Any) -> Form:
    """One tile, and which tiles are there."""
    image, inputs = plain(config, front=(1, 1))
    return image, {**inputs, "pixel_attention_mask": torch.ones(1, 1, dtype=torch.bool)}


def sized_patches(config: Any) -> Form:
    """Patches side by side, with the rows and columns of them (MiniCPM-V)."""
    patch = first(vision(config), "patch_size")
    n = round(AREA / 4 / patch) * 4
    row = pixels(1, 3, patch, n * n * patch)
    return (n * patch, n * patch), {"pixel_values": row, "target_sizes": torch.tensor([[n, n]])}


def two_resolutions(config: Any) -> Form:
    """The pixels, and those of a larger copy (DeepSeek-VL hybrid)."""
    image, inputs = plain(config)
    side = int(first(config.high_res_vision_config, "image_size"))
    return image, {**inputs, "high_res_pixel_values": pixels(1, 3, side, side)}


def placed(config: Any) -> Form:
    """Patches in rows with the place of each."""
    patch = first(vision(config), "patch_size")
    n = WORDS * first(vision(config), "pooling_kernel_size", default=1)
    places = torch.cartesian_prod(torch.arange(n), torch.arange(n)).flip(1)[None]
    rows = pixels(1, n * n, 3 * patch * patch)
    return (n * patch, n * patch), {"pixel_values": rows, "image_position_ids": places}


def rows_of_patches(config: Any) -> Form:
    """Patches in rows alone (Fuyu)."""
    patch = config.patch_size
    n = AREA // patch
    return (n * patch, n * patch), {"pixel_values": pixels(1, n * n, config.num_channels * patch * patch)}


def plain(config: Any, front: tuple[int, ...] = (1,)) -> Form:
    """The pixels alone, of one image."""
    side = own_side(config)
    return (side, side), {"pixel_values": pixels(*front, 3, side, side)}


def asked(config: Any) -> Form:
    """The pixels, and the words that a Q-Former reads beside its queries."""
    image, inputs = plain(config)
    words = torch.zeros(1, WORDS, dtype=torch.long)
    return image, {**inputs, "qformer_input_ids": words, "qformer_attention_mask": words + 1}


Maker = Callable[[Any], Form]
PLAIN: tuple[Maker, ...] = (plain, partial(plain, front=(1, 1)))
FORMS: dict[str, tuple[Maker, ...]] = {
    "image_grid_thw": tuple(partial(grid, shape=shape) for shape in ("flat", "still", "square", "batch")),
    "image_grid_hw": (rows_and_columns,),
    "spatial_shapes": (naflex,),
    "image_sizes": (pinned, sized, plain),
    "pixel_attention_mask": (masked_tiles, tiles_of_granite),
    "target_sizes": (sized_patches,),
    "high_res_pixel_values": (two_resolutions,),
    "image_position_ids": (placed,),
    "qformer_input_ids": (asked,),
}
"""By an argument of `get_image_features`, the first that it has."""


def given(look: Any, config: Any) -> tuple[Maker, ...]:
    """Forms of one image that this method may take, the likely first."""
    names = inspect.signature(look).parameters
    makers = next((forms for name, forms in FORMS.items() if name in names), PLAIN)
    if config.model_type == "fuyu":
        makers = (rows_of_patches,)
    return (
        makers
        if getattr(config, "image_grid_pinpoints", None)
        else tuple(x for x in makers if x is not pinned)
    )
