"""Towers of a wrapper's config.json: which part holds which encoder, and how it is read.

Imported for files with towers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, bare, tree_of
from archcli.load.huggingface.parts.processing import (
    BOUNDS,
    PROCESSOR,
    VIDEO_PROCESSOR,
    image_settings,
    pixels_of,
    processor,
    whole_pixels,
)
from archcli.load.huggingface.registry import family_of
from archcli.load.huggingface.towers.readers import (
    FLAT,
    JOINS,
    OPTIONAL,
    READERS,
    in_prompt,
)
from archcli.load.loaded import MediaNote
from archcli.load.spec.build import built_part
from archcli.modules import Tower

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

    def part(self, key: str, defaults: Mapping[str, Any] = NOTHING) -> Config:
        """The config of a tower, with the defaults of its class."""
        self.whole.ignore(key)
        config = self.whole.inner(key, defaults)
        config.ignore("model_type", *PLAIN, *defaults)
        return config

    def encoder(self, key: str, usual: str, init: Mapping[str, Any] = NOTHING) -> Mapped:
        """An encoder of a known family; `init` is what the wrapper fills in where the key is missing."""
        config = self.part(key)
        data = dict(config.data) or dict(init)
        kind = data.setdefault("model_type", usual)
        family = family_of(kind) if isinstance(kind, str) else None
        if family is None or not isinstance(kind, str) or kind not in ENCODERS:
            raise self.whole.error(f"{key} of model_type {short_repr(kind)} is not known")
        inner = Config(data, config.places, config.read, self.whole.notes, reader=config.reader)
        mapping = family.mapping(family.of_class(inner))
        inner.report_unread_keys()
        front_end = mapping["front_end"]
        size = bare(front_end["image_size"])
        if kind != "siglip2_vision_model" and self.in_file and bare(self.size(size)) != size:
            # no class passes interpolate_pos_encoding, so it reads the size of training alone
            return {**mapping, "front_end": {**front_end, "resize": None}}
        return mapping

    def size(self, fallback: Any) -> Any:
        """The one size that a processor resizes images to, else the tower's own, with a note."""
        if not self.in_file:
            self.note(f"images are resized to {' x '.join(map(str, getattr(fallback, 'value', fallback)))}")
            return fallback
        # a class that does not cut has no word for it
        cuts = self.processor.get("do_center_crop", default=not self.processor.defaults)
        for key in ("crop_size", "size") if cuts else ("size",):
            stated = self.processor.get(key, default=None)
            if isinstance(stated, int):
                return [stated, stated]
            if isinstance(stated, dict) and {"height", "width"} <= stated.keys():
                return [stated["height"], stated["width"]]
            if isinstance(stated, dict) and key == "size" and "shortest_edge" in stated:
                return [stated["shortest_edge"]] * 2
        return fallback

    def bounds(self, least: int, most: int) -> tuple[int, int] | None:
        """The least and most pixels of an image: the processor's, or these where no file states any.

        None for a size that its class refuses.
        """
        if not self.in_file:
            self.note(f"an image has {least:,} to {most:,} pixels")
            return least, most
        low, high = (
            None if value is None else whole_pixels(value, which)
            for value, which in zip(pixels_of(self.processor), ("least", "most"), strict=True)
        )
        size = self.processor.get("size", default=None)
        refused = self.processor.defaults and (
            not isinstance(size, dict) or size.keys() != {*BOUNDS.values()}
        )
        return None if refused else (low or least, high or most)

    def patched_video(
        self, factor: int, frames: int, least: int, most: int, *, of_all: bool = False
    ) -> Mapped | None:
        """How patches reach through frames; None for a rule that is not known.

        `least` and `most` pixels of a frame, or `of_all`, hold where no file states others.
        """
        stated = self.of_videos
        if stated.get("cap_pixels_per_frame", default=False):
            return None
        low, high = pixels_of(stated)
        if low is None or high is None:
            what = "all frames together have" if of_all else "a frame has"
            note = f"no {VIDEO_PROCESSOR} says what becomes of a video: {what} {least:,} to {most:,} pixels"
            self.whole.note(MediaNote(note))
        bounds = {"least": whole_pixels(low or least, "least"), "most": whole_pixels(high or most, "most")}
        return {"kind": "patched", "frames": frames, "factor": factor, **bounds, "of_all": of_all}

    def frame_size(self, fallback: Any) -> Any:
        """The size that a processor resizes frames to, else that of images."""
        stated = self.of_videos.get("size", default=None)
        if isinstance(stated, dict) and {"height", "width"} <= stated.keys():
            return [stated["height"], stated["width"]]
        return fallback

    @property
    def of_videos(self) -> Config:
        """The file on videos, or that on images."""
        own = processor(self.whole, VIDEO_PROCESSOR)
        return own if own.data or not self.in_file else processor(self.whole)

    def longest(self, key: str, default: int) -> int:
        """The longest edge that the processor states at a key, or this one where no file states any."""
        if not self.in_file:
            self.note(f"{key} has a longest edge of {default}")
            return default
        stated = self.processor.get(key, default=None)
        value = stated.get("longest_edge") if isinstance(stated, dict) else stated
        return value if isinstance(value, int) else default

    def note(self, text: str) -> None:
        """Say which default of a class stands where no processor's file says otherwise."""
        self.whole.note(MediaNote(f"no {PROCESSOR} says what becomes of an image: {text}"))


USUAL_SIDE = 32
"""Rows and columns of patches of the image that is read where none is named."""
NO_FIGURE = (
    "tokens_per_second",
    "spatial_patch_size",
    "rope_parameters",
    "in_chans",
    "tokens_per_grid_t",
)
"""Keys of videos and of angles, which change no figure of an image."""
OF_QWEN = {"num_attention_heads": "num_heads", "num_hidden_layers": "depth"}
"""Words of Qwen's encoders for common keys."""
ROTARY = {"kind": "grid_rope"}
ENCODERS = {"clip_vision_model", "siglip_vision_model", "siglip2_vision_model"}
"""Model types of encoders that are families by themselves."""

Reader = Callable[[TowerSource], Mapped | list[Mapped]]


class Towers(NamedTuple):
    """The towers of a file that are known, the keys that they stand at, and why others are not.

    `settled` are keys of parts that are no tower: left out by the file, or read with one.
    `beside` are other parts that are known, by name with their parameters.
    """

    towers: list[Mapped]
    keys: list[str]
    reasons: dict[str, str]
    settled: list[str]
    beside: dict[str, int]


def towers_of(whole: Config, mapping: Mapped, text: Mapping[str, Any]) -> Towers:
    """The towers of a wrapper's file, beside a language model with this mapping."""
    known = Towers([], [], {}, [], {})
    parts = any(key.endswith("_config") for key in whole.data if key != "quantization_config")
    if not parts and (whole.model_type, FLAT) not in READERS:
        # a flat file of a class outside of transformers states no tower (the first of LLaVA)
        return known
    for (kind, key), place in READERS.items():
        if kind != whole.model_type:
            continue
        if (kind, key) in OPTIONAL and whole.get(key, default=None) is None:
            known.settled.append(key)
            continue
        module, _, name = place.partition(":")
        read: Reader = getattr(import_module(f"archcli.load.huggingface.towers.{module}"), name)
        # notes of a tower that turns out to be unknown are about nothing
        notes = len(whole.notes)
        try:
            source = TowerSource(whole, *image_settings(whole), mapping["d_model"], text)
            for tower in _made(source, read, mapping, in_prompt(whole, text, key)):
                if "params" in tower:
                    known.beside[tower["part"]] = tower["params"]
                else:
                    known.towers.append(tower)
            known.keys.append(key)
            known.settled.extend(JOINS.get((kind, key), ()))
        except ArchError as error:
            del whole.notes[notes:]
            known.reasons[key] = error.problems[0].what
            if key == FLAT:  # no key of the file, of which another note would say it
                whole.note(f"{key} is not counted: {known.reasons[key]}")
    return known


def _made(source: TowerSource, read: Reader, mapping: Mapped, place: Mapped) -> list[Mapped]:
    """What a reader makes of a file, the first tower in its place in the prompt.

    Where the processor's file makes no image of it that the encoder reads, weights are counted all the same.
    """
    notes = len(source.whole.notes)
    try:
        return _placed(source, read, mapping, place)
    except ArchError as error:
        if not source.in_file:
            raise
        said = source.whole.notes
        del said[notes:]
        usual = Config({}, notes=said, defaults=source.processor.defaults)
        towers = _placed(replace(source, processor=usual, in_file=False), read, mapping, place)
        # no default of a processor stands in the place of what a file says
        said[notes:] = [note for note in said[notes:] if not isinstance(note, MediaNote)]
        why = f"by {PROCESSOR} {error.problems[0].what.removeprefix(f'{PROCESSOR}: ')}"
        return [it if "params" in it else {**it, "sizing": _unread(why)} for it in towers]


def _placed(source: TowerSource, read: Reader, mapping: Mapped, place: Mapped) -> list[Mapped]:
    made = read(source)
    return [
        tower
        if "params" in tower
        else _in_place(source.whole, _unresized(source, tower), mapping, {} if number else place)
        for number, tower in enumerate(made if isinstance(made, list) else [made])
    ]


OF_WHOLE_TOKENS = {"multiple": "factor", "largest": "factor", "padded": "cell"}
"""Sizings whose images may stay as they are, and the key of what their sides are then multiples of."""


def _unresized(source: TowerSource, tower: Mapped) -> Mapped:
    """A tower whose images stay as they are, where a class that reads do_resize is told so."""
    sizing, processor = tower.get("sizing"), source.processor
    known = not processor.defaults or "do_resize" in processor.defaults
    if sizing is None or not known or processor.get("do_resize", default=True) is not False:
        return tower
    kind = sizing["kind"]
    if kind == "fixed":
        if processor.get("do_center_crop", default=False):
            return tower
        return {**tower, "sizing": {"kind": "exact", "size": tower["model"]["front_end"]["image_size"]}}
    if kind in OF_WHOLE_TOKENS:
        return {**tower, "sizing": {"kind": "exact", "factor": sizing[OF_WHOLE_TOKENS[kind]]}}
    return {**tower, "sizing": _unread("its processor does not resize images")}


def _in_place(whole: Config, tower: Mapped, mapping: Mapped, place: Mapped) -> Mapped:
    """A tower with its place in the prompt; without one where its vectors are not as wide as the text's.

    A class is made of such a file all the same: the defaults of Qwen2-VL to Qwen3.5 are such ones. ArchError
    for a tower that cannot be built, or reads no image of its own size.
    """
    placed, start = {**place, **tower}, whole.places.start
    made: Tower = built_part(Tower, tree_of(placed, start), tree_of(mapping, start))
    try:
        made.pieces(made.usual)
    except ArchError:
        # what a processor's file says of images is an error where one is read
        return placed
    width = made.width
    if placed.get("token") is None or width == bare(mapping["d_model"]):
        return placed
    return {key: value for key, value in tower.items() if key != "token"}


def linear(width: Any, *, bias: Any = True) -> Mapped:
    """A step W x + b."""
    return {"kind": "linear", "width": width, "bias": bias}


def merged(n: Any) -> Mapped:
    """A step that makes one token of n x n patches."""
    return {"kind": "merge", "block": [n, n]}


def still_patches(config: Config, frames: str = "temporal_patch_size", **more: Any) -> Mapped:
    """Patches of a still image, which is repeated for each frame of a patch."""
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
    """Sides to multiples of a merged patch, between two areas."""
    sizes = {
        "patch_size": config.size("patch_size").value,
        "merge_size": config.size("spatial_merge_size").value,
    }
    for key, value in sizes.items() if source.in_file else ():
        stated = source.processor.get(key, default=value)
        if stated != value:
            return _unread(f"{key} is {short_repr(stated)} in its processor, and {value} in its tower")
    bounds = source.bounds(least, most)
    if bounds is None:
        return _unread(
            "the size of its processor must have shortest_edge and longest_edge, and no other keys"
        )
    low, high = bounds
    factor = sizes["patch_size"] * sizes["merge_size"]
    bounded = {"least": -(-low // frames), "most": high // frames}
    return {"kind": "multiple", "factor": factor, **bounded, **more}


def _unread(why: str) -> Mapped:
    """The sizing of images that are not read."""
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
