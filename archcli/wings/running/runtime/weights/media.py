"""Images and sounds for transformers' classes: the arguments of their forwards.

B batch, T tokens of the prompt, n pieces of an image, C channels, H and W height and width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from archcli.errors import ArchError
from archcli.modules import Model
from archcli.modules.spec.request import SOUNDS, Medium, Request
from archcli.wings.media.modules.models.media import token_of
from archcli.wings.media.modules.models.tower import Tower
from archcli.wings.running.runtime.model.media import FIRST, with_media
from archcli.wings.running.runtime.model.random_data import random_input
from archcli.wings.running.runtime.weights.inputs import DECODED, Inputs

Given = Sequence[tuple[Medium, torch.Tensor]]
FRAMED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""Classes that read patches in rows, in the order of merged blocks."""
FLAT = ("smolvlm", "idefics3")
TILED = (*FLAT, "llava_next", "llava_onevision")
"""Classes that read [B, n, C, H, W], the flat ones with the n of all images of a sequence."""
SIZED = ("llava_next", "llava_onevision", "mistral3", "llava")
"""Classes that are told the size of an image, at least with some encoders."""
IN_PATCHES = ("fuyu",)
"""Classes that read the pixels of each patch in a row, channels last."""


def prompt_with(
    spec: Model, inputs: Inputs, media: Sequence[Medium], dtype: torch.dtype, seed: torch.Generator
) -> Inputs:
    """Inputs whose prompt has the tokens of these media among its text, and random pieces of each."""
    if any(spec.tower_of(medium).added for medium in media):
        return _below(spec, inputs, media[0], dtype, seed)
    batch, length = inputs.tokens.shape
    parts = []
    for medium in media:
        tower = spec.tower_of(medium)
        read = tower.inputs(tower.reading(Request(batch_size=batch), medium))["tokens"]
        parts.append((medium, random_input(read, dtype, seed)))
    # decoded tokens are text
    if length - FIRST * len(media) <= DECODED:
        raise ArchError("the text is too short for these images and sounds", "a larger --seq-len")
    return Inputs(with_media(spec, inputs.tokens, media), (), tuple(parts), spec)


def _below(spec: Model, inputs: Inputs, medium: Medium, dtype: torch.dtype, seed: torch.Generator) -> Inputs:
    """Inputs whose prompt has a token of the text, repeated as needed, for each vector of a medium."""
    tower, (batch, length) = spec.tower_of(medium), inputs.tokens.shape
    read = tower.inputs(tower.reading(Request(batch_size=batch), medium))["tokens"]
    places = torch.arange(tower.vectors_of(medium)) % length
    part = medium, random_input(read, dtype, seed)
    return Inputs(inputs.tokens[:, places], (), (part,), spec)


def class_arguments(config: Any, spec: Model, media: Given, tokens: torch.Tensor) -> dict[str, Any]:
    """Arguments of a class beside the ids [B, T]; none in decoding, whose tokens are text."""
    tower = spec.tower_of(media[0][0])
    if tower.added:
        return {"input_features": media[0][1]}
    here = (tokens == token_of(tower)).long()
    if not here.any():
        return {}
    kind, batch = config.model_type, len(tokens)
    # of the first sequence, then of the second
    of_batch = [(medium, values.chunk(batch)[i]) for i in range(batch) for medium, values in media]
    if media[0][0].kind in SOUNDS:
        return _heard(kind, torch.cat([values for _, values in of_batch]))
    if kind in FRAMED:
        rows, grids = zip(*[_in_rows(values, config.vision_config) for _, values in of_batch], strict=True)
        patches = {"pixel_values": torch.cat(rows), "image_grid_thw": torch.cat(grids)}
        return {**patches, "mm_token_type_ids": here}
    if kind == "mllama":
        return _in_tiles(torch.stack([values for _, values in of_batch]), config.vision_config, batch)
    kwargs: dict[str, Any] = {"pixel_values": torch.cat([values for _, values in of_batch])}
    if kind in IN_PATCHES:
        kwargs["pixel_values"] = _patches(kwargs["pixel_values"], config.patch_size)
    if kind in TILED:
        kwargs["pixel_values"] = kwargs["pixel_values"].unflatten(
            0, (batch if kind in FLAT else len(of_batch), -1)
        )
    if kind in SIZED and _is_told(kind, config):
        kwargs["image_sizes"] = torch.tensor([_size(kind, tower, medium) for medium, _ in of_batch])
    if tower.both_ways != "none":
        # of PaliGemma 0 is the prompt, of Gemma 3 1 an image
        kwargs["token_type_ids"] = torch.zeros_like(here) if tower.both_ways == "prompt" else here
    return kwargs


def _is_told(kind: str, config: Any) -> bool:
    return kind != "llava" or config.vision_config.model_type == "pixtral"


def _size(kind: str, tower: Tower, medium: Medium) -> tuple[int, ...]:
    """The size of the image that a class is told: as it was, or as it is read."""
    return medium.size if kind in TILED else tuple(tower.pieces(medium).size)


def _heard(kind: str, values: torch.Tensor) -> dict[str, Any]:
    """Arguments of classes that read spectrograms [B, mels, frames]."""
    if kind == "qwen2_audio":
        every = torch.ones(len(values), values.shape[-1], dtype=torch.long)
        return {"input_features": values, "feature_attention_mask": every}
    return {"input_features": values}


def _in_tiles(values: torch.Tensor, vision: Any, batch: int) -> dict[str, torch.Tensor]:
    """Arguments of Llama 3.2 Vision for images [n, 1, C, t H, W] of t tiles one below the other.

    The last arrangement of tiles is that of a column. No tile is empty.
    """
    cut = values.unflatten(3, (vision.max_num_tiles, -1)).squeeze(1).transpose(1, 2)
    of_sequences = cut.unflatten(0, (batch, -1))
    images = of_sequences.shape[:2]
    return {
        "pixel_values": of_sequences,
        "aspect_ratio_ids": torch.full(images, vision.max_aspect_ratio_id),
        "aspect_ratio_mask": torch.ones(*images, vision.max_num_tiles, dtype=torch.long),
    }


def _patches(values: torch.Tensor, p: int) -> torch.Tensor:
    """Patches [n, h w, p p C] of images [n, C, H, W], row by row."""
    cut = values.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 4, 5, 1)
    return cut.reshape(len(values), -1, values.shape[1] * p * p)


def _in_rows(values: torch.Tensor, vision: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Patches [n h w, C f p p] of images [n, C f, H, W] block by block, and the grid of each image."""
    p, f, m = vision.patch_size, vision.temporal_patch_size, vision.spatial_merge_size
    number, channels, height, width = values.shape
    h, w = height // p, width // p
    cut = values.view(number, channels // f, f, h // m, m, p, w // m, m, p)
    rows = cut.permute(0, 3, 6, 4, 7, 1, 2, 5, 8).reshape(number * h * w, -1)
    return rows, torch.tensor([[1, h, w]] * number)
