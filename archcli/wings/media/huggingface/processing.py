"""Image processing by the files beside a config.json, as transformers' classes read them.

A key that a file leaves out has the default of its class; a processor overrules a few keys whatever the file
says. `processors.json` beside this file holds both, as `tests/oracle/regenerate_image_tokens.py` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.yaml.text import decode, read_start

PROCESSOR = "preprocessor_config.json"
"""The file of an image's preprocessing."""
VIDEO_PROCESSOR = "video_preprocessor_config.json"
"""The file of a video's preprocessing; without it, that of images."""
WHOLE = "processor_config.json"
"""The file of the whole processor; in transformers 5 it holds the other two."""
PARTS = {PROCESSOR: "image_processor", VIDEO_PROCESSOR: "video_processor"}
"""The keys of the whole processor's file that stand in the place of another file."""
CLASSES = Path(__file__).with_name("processors.json")
BOUNDS = {"min_pixels": "shortest_edge", "max_pixels": "longest_edge"}
"""Older names of Qwen's classes for the bounds of an area."""


def processor(whole: Config, name: str = PROCESSOR) -> Config:
    """The processor's file beside a config.json, empty where there is none."""
    return Config(_settings(whole, name) or {}, notes=whole.notes)


def whole_processor(whole: Config) -> Config:
    """The file of the whole processor, empty where there is none."""
    return Config(_read(whole, WHOLE) or {}, notes=whole.notes)


def saved_alone(whole: Config) -> bool:
    """Whether the images' file is an image processor's alone, not overruled by a whole processor.

    `save_pretrained` of an image processor names its own class alone; that of a whole processor names its
    class too (transformers 4), or writes a file of its own beside (5).
    """
    settings = _read(whole, PROCESSOR) or {}
    alone = "image_processor_type" in settings and "processor_class" not in settings
    return alone and _read(whole, WHOLE) is None


def _settings(whole: Config, name: str) -> Mapping[str, Any] | None:
    """The settings of a file, or of the whole processor's in its place; None without a file."""
    part = (_read(whole, WHOLE) or {}).get(PARTS.get(name, ""))
    return part if isinstance(part, dict) else _read(whole, name)


def _read(whole: Config, name: str) -> Mapping[str, Any] | None:
    """The object in a file beside a config.json; None, with a note where it holds none."""
    file = Path(whole.places.source.name)
    sibling = file.with_name(name)
    if file.name != "config.json" or not sibling.is_file():
        return None
    try:
        data = json.loads(decode(read_start(sibling, str(sibling)), str(sibling)))
    except (ValueError, RecursionError, ArchError):
        data = None
    if not isinstance(data, dict):
        whole.note(f"{name} is no JSON object, and not read")
        return None
    return data


class ImageSettings(NamedTuple):
    """The settings of an image processor, and whether they are from a file."""

    config: Config
    in_file: bool


def image_settings(whole: Config) -> ImageSettings:
    """Image settings of a model with towers: the file's as overruled by its processor, else the class's."""
    saved = _settings(whole, PROCESSOR)
    usual, overruled = _class_settings(whole.model_type, saved or {})
    data = {**_with_bounds(saved or {}, usual), **({} if saved_alone(whole) else overruled)}
    return ImageSettings(Config(data, notes=whole.notes, defaults=usual), saved is not None)


def _class_settings(kind: str, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The defaults of a file's class, and the settings that its processor overrules."""
    known = _classes()
    image_class, processor_class = known["types"].get(kind, (None, None))
    named = str(data.get("image_processor_type", "")).removesuffix("Fast").removesuffix("Pil")
    defaults = known["image_processors"]
    usual = defaults.get(named if named in defaults else image_class, {})
    return usual, known["processors"].get(data.get("processor_class", processor_class), {})


@cache
def _classes() -> dict[str, dict[str, Any]]:
    """The file of classes."""
    known: dict[str, dict[str, Any]] = json.loads(CLASSES.read_text(encoding="utf-8"))
    return known


def _with_bounds(data: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
    """The file with min_pixels and max_pixels in the `size` of a class that takes them."""
    older = {key: data[key] for key in BOUNDS if data.get(key) is not None}
    size = data.get("size") or usual.get("size")
    if "min_pixels" not in usual or not older or not isinstance(size, dict):
        return data
    # the class takes an older word out of a size where it stands beside it, too
    kept = {key: value for key, value in size.items() if key not in older}
    return {**data, "size": {**kept, **{BOUNDS[key]: value for key, value in older.items()}}}


def pixels_of(settings: Config) -> tuple[Any, Any]:
    """The least and most pixels that a processor's file states; None for none."""
    size = settings.get("size", default=None)
    size = size if isinstance(size, dict) else {}
    low, high = (size.get(key) for key in BOUNDS.values())
    if settings.defaults:  # a class that takes older words has them in its size
        return low, high
    return settings.get("min_pixels", default=low), settings.get("max_pixels", default=high)


def whole_pixels(value: Any, which: str) -> int:
    """The least or most pixels. Raises ArchError for anything but a whole number above 0."""
    if not isinstance(value, int) or value < 1:
        what = f"the {which} pixels of an image must be a whole number above 0"
        raise ArchError(f"{PROCESSOR}: {what}, not {short_repr(value)}")
    return value
