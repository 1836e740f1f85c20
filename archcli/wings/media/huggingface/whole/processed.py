"""The size to which an image processor's file resizes the images of an encoder by itself."""

from __future__ import annotations

from typing import Any

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.wings.media.huggingface.processing import PROCESSOR, image_settings

AS_GIVEN = "an image is read as it is given"


def with_size(mapping: Mapped, config: Config) -> Mapped:
    """An encoder's mapping with the one size of its images, where a file beside the config.json says so."""
    front_end = mapping.get("front_end", {})
    if front_end.get("kind") != "patches":
        return mapping
    settings = image_settings(config)
    size = _size(settings.config) if settings.in_file else None
    if size is not None:
        return {**mapping, "front_end": {**front_end, "resized": size}}
    if settings.in_file:
        config.note(f"{PROCESSOR} states no one size: {AS_GIVEN}")
    else:
        config.note(f"no {PROCESSOR} says to which size images are resized: {AS_GIVEN}")
    return mapping


def _size(settings: Config) -> list[Any] | None:
    """Height and width behind resizing and cutting the border off; None where images keep their shapes."""
    # a class that does not cut has no word for it
    if settings.get("do_center_crop", default=not settings.defaults):
        cut = _square(settings.get("crop_size", default=None))
        if cut is not None:
            return cut
    if not settings.get("do_resize", default=True):
        return None
    return _square(settings.get("size", default=None))


def _square(size: Any) -> list[Any] | None:
    """Height and width of a number or of a mapping of both; None for anything else."""
    if isinstance(size, int) and not isinstance(size, bool):
        return [size, size]
    if isinstance(size, dict) and {"height", "width"} <= size.keys():
        return [size["height"], size["width"]]
    return None
