"""What the reader of a tower has at hand: its part with its class's defaults, and pieces to return.

Imported for files with towers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, ConfigValue, Mapped, processor
from archcli.load.huggingface.registry import family_of
from archcli.load.loaded import MediaNote

TOWER_DEFAULTS = Path(__file__).with_name("defaults.json")
"""By wrapper and key; `pytest -m "" -n0 --renew tests/mappings/test_tower_defaults.py` writes it."""
NOTHING: Mapping[str, Any] = {}
PLAIN = (
    "architectures",
    "projection_dim",
    "vocab_size",
    "projector_hidden_act",
    "num_image_tokens",
    "attention_dropout",
    "initializer_range",
    "initializer_factor",
    "_attn_implementation",
    "_attn_implementation_autoset",
)
"""Keys of a tower that change no figure of it."""


@dataclass(frozen=True)
class TowerSource:
    """What a tower is read from: the whole file, its processor's settings, and the language model.

    `processor` has the defaults of its class; `in_file` says whether a file states any setting.
    """

    whole: Config
    processor: Config
    in_file: bool
    width: ConfigValue[int]
    text: Mapping[str, Any]

    def defaults(self, key: str) -> Mapping[str, Any]:
        """The defaults of a part's class, and where a file lacks the part what the wrapper's class states."""
        entry = hf.value_at(TOWER_DEFAULTS, f"{self.whole.model_type} {key}") or {}
        is_missing = self.whole.get(key, default=None) is None  # an empty part is the class's own
        return {**entry.get("class", NOTHING), **(entry.get("missing", NOTHING) if is_missing else NOTHING)}

    def part(self, key: str, unstated: Mapping[str, Any] = NOTHING) -> Config:
        """The config of a tower with the defaults of its class, or those `unstated` in defaults.json."""
        self.whole.ignore(key)
        defaults = {**unstated, **self.defaults(key)}
        config = self.whole.inner(key, defaults)
        config.ignore("model_type", *PLAIN, *defaults)
        return config

    def encoder(self, key: str, usual: str) -> Mapped:
        """An encoder of a known family; `usual` if its part has no model_type."""
        config = self.part(key)
        data = dict(config.data) or dict(config.defaults)
        kind = data.setdefault("model_type", usual)
        family = family_of(kind) if isinstance(kind, str) else None
        if family is None or not isinstance(kind, str) or kind not in ENCODERS:
            raise self.whole.error(f"{key} of model_type {hf.short_repr(kind)} is not known")
        inner = Config(data, config.places, config.read, self.whole.notes, reader=config.reader)
        mapping = family.mapping(family.of_class(inner))
        inner.report_unread_keys()
        front_end = mapping["front_end"]
        size = hf.bare(front_end["image_size"])
        if kind != "siglip2_vision_model" and self.in_file and hf.bare(self.size(size)) != size:
            # no class passes interpolate_pos_encoding: the encoder reads only images of its training size
            return {**mapping, "front_end": {**front_end, "resize": None}}
        return mapping

    def size(self, fallback: Any) -> Any:
        """The size to which a processor resizes images; without its file that of the tower, with a note."""
        if not self.in_file:
            self.note(f"images are resized to {' x '.join(map(str, getattr(fallback, 'value', fallback)))}")
            return fallback
        # a processor class without cropping has no do_center_crop in its defaults
        cuts = self.processor.get("do_center_crop", default=not self.processor.defaults)
        for key in ("crop_size", "size") if cuts else ("size",):
            size = self.processor.get(key, default=None)
            if isinstance(size, int):
                return [size, size]
            if isinstance(size, dict) and {"height", "width"} <= size.keys():
                return [size["height"], size["width"]]
            if isinstance(size, dict) and key == "size" and "shortest_edge" in size:
                return [size["shortest_edge"]] * 2
        return fallback

    def bounds(self, least: int, most: int) -> tuple[int, int] | None:
        """The least and most pixels of an image: the processor's, or the arguments without a file.

        None for a size that its class refuses.
        """
        if not self.in_file:
            self.note(f"an image has {least:,} to {most:,} pixels")
            return least, most
        low, high = (
            None if value is None else hf.whole_pixels(value, which)
            for value, which in zip(hf.pixels_of(self.processor), ("least", "most"), strict=True)
        )
        size = self.processor.get("size", default=None)
        refused = self.processor.defaults and (
            not isinstance(size, dict) or size.keys() != {*hf.BOUNDS.values()}
        )
        return None if refused else (low or least, high or most)

    def patched_video(
        self, factor: int, frames: int, least: int, most: int, *, of_all: bool = False
    ) -> Mapped | None:
        """The sizing of a video whose patches span frames; None for an unknown rule.

        `least` and `most` pixels, of a frame or `of_all` frames, are defaults without a file.
        """
        processor = self.of_videos
        if processor.get("cap_pixels_per_frame", default=False):
            return None
        low, high = hf.pixels_of(processor)
        if low is None or high is None:
            what = "all frames together have" if of_all else "a frame has"
            note = (
                f"no {hf.VIDEO_PROCESSOR} says what becomes of a video: {what} {least:,} to {most:,} pixels"
            )
            self.whole.note(MediaNote(note))
        bounds = {
            "least": hf.whole_pixels(low or least, "least"),
            "most": hf.whole_pixels(high or most, "most"),
        }
        return {"kind": "patched", "frames": frames, "factor": factor, **bounds, "of_all": of_all}

    def frame_size(self, fallback: Any) -> Any:
        """The size to which a processor resizes frames, else that of images."""
        size = self.of_videos.get("size", default=None)
        if isinstance(size, dict) and {"height", "width"} <= size.keys():
            return [size["height"], size["width"]]
        return fallback

    @property
    def of_videos(self) -> Config:
        """The video processor's file, else the image processor's."""
        video_processor = processor(self.whole, hf.VIDEO_PROCESSOR)
        return video_processor if video_processor.data or not self.in_file else processor(self.whole)

    def longest(self, key: str, default: int) -> int:
        """The longest edge at a key of the processor, or the default without a file."""
        if not self.in_file:
            self.note(f"{key} has a longest edge of {default}")
            return default
        entry = self.processor.get(key, default=None)
        value = entry.get("longest_edge") if isinstance(entry, dict) else entry
        return value if isinstance(value, int) else default

    def note(self, text: str) -> None:
        """Note a default that is used because the processor's file is missing."""
        self.whole.note(MediaNote(f"no {hf.PROCESSOR} says what becomes of an image: {text}"))


USUAL_SIDE = 32
"""Rows and columns of patches in the default image."""
NO_FIGURE = (
    "tokens_per_second",
    "spatial_patch_size",
    "rope_parameters",
    "in_chans",
    "tokens_per_grid_t",
)
"""Unread keys, of videos and of rotary angles: they change no count of an image."""
OF_QWEN = {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"}
"""Common keys, and their names in Qwen's encoders."""
ROTARY = {"kind": "grid_rope"}
ENCODERS = {"clip_vision_model", "siglip_vision_model", "siglip2_vision_model"}
"""Model types of encoders that are families by themselves."""


def linear(width: Any, *, bias: Any = True) -> Mapped:
    """A step W x + b."""
    return {"kind": "linear", "width": width, "bias": bias}


def merged(n: Any) -> Mapped:
    """A step that merges n x n patches into one token."""
    return {"kind": "merge", "block": [n, n]}


def still_patches(config: Config, frames: str = "temporal_patch_size", **more: Any) -> Mapped:
    """Patches over several frames (Conv3d): a still image is repeated for each frame."""
    patch = config.size("patch_size").value
    channels = config.size("in_channels", "in_chans", "num_channels", default=3)
    repeated = config.size(frames, default=1).value
    return {
        "kind": "patches",
        "image_size": [USUAL_SIDE * patch] * 2,
        "patch_size": [patch, patch],
        "in_channels": channels.derive(channels.value * repeated),
        "class_token": False,
        "position": "none",
        "coordinates": "grid",
        **more,
    }


def multiples(
    source: TowerSource, config: Config, least: int, most: int, frames: int = 1, **more: str
) -> Mapped:
    """The sizing to multiples of a merged patch, between two areas (Qwen2-VL)."""
    sizes = {
        "patch_size": config.size("patch_size").value,
        "merge_size": config.size("spatial_merge_size").value,
    }
    for key, value in sizes.items() if source.in_file else ():
        entry = source.processor.get(key, default=value)
        if entry != value:
            return unread(f"{key} is {hf.short_repr(entry)} in its processor, and {value} in its tower")
    bounds = source.bounds(least, most)
    if bounds is None:
        return unread("the size of its processor must have shortest_edge and longest_edge, and no other keys")
    low, high = bounds
    factor = sizes["patch_size"] * sizes["merge_size"]
    bounded = {"least": -(-low // frames), "most": high // frames}
    return {"kind": "multiple", "factor": factor, **bounded, **more}


def unread(why: str) -> Mapped:
    """The sizing of images that cannot be read, with the reason."""
    return {"kind": "unknown", "why": why}


def merger(hidden: int, width: Any, act: Any, *, norm: Mapped, n: Any, first: bool = True) -> list[Mapped]:
    """A norm before or behind the merger, and two linear layers."""
    normed = {"kind": "norm", "norm": norm}
    start = [normed, merged(n)] if first else [merged(n), normed]
    return [*start, linear(hidden), {"kind": "activation", "activation": act}, linear(width)]


def tiled(source: TowerSource, tile: Any) -> Mapped:
    """Tiles by the nearest shape where the processor cuts images into them, else one size."""
    if not source.processor.get("crop_to_patches", default=False):
        return {"kind": "fixed", "size": tile}
    if not source.in_file:
        source.note(f"it is cut into at most {source.processor.get('max_patches', default=12)} tiles")
    least = source.processor.get("min_patches", default=1)
    return {
        "kind": "canvas",
        "tile": tile,
        "least": least,
        "most": source.processor.get("max_patches", default=12),
    }


def layer_numbers(config: Config, key: str) -> list[int]:
    """A list of numbers of layers; ArchError for anything else."""
    entry = config.value(key)
    if not isinstance(entry.value, list | tuple) or not all(type(number) is int for number in entry.value):
        raise config.error(f"{key} must be a list of layers, counted from 0", at=entry.place)
    return [*entry.value]


def taps_of(config: Config) -> list[int]:
    """The layers that are merged too; ArchError where the class makes a merger that no layer reaches."""
    key = "deepstack_visual_indexes"
    taps = layer_numbers(config, key)
    if sorted({*taps} & {*range(config.layers())}) != sorted(taps):
        what = f"{key} {taps} must be different layers, counted from 0, of {config.layers()}"
        raise config.error(what, at=config.place(key))
    return taps
