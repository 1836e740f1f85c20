"""Towers of a wrapper's config.json: which part holds which encoder, and how it is read.

Imported for files with towers alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import ConfigValue, Mapped, tree_of
from archcli.load.huggingface.registry import family_of
from archcli.load.huggingface.wrappers.readers import READERS
from archcli.load.spec.build import problems_of_part
from archcli.load.yaml.nodes import Place
from archcli.load.yaml.text import decode, read_start
from archcli.modules import Tower

PROCESSOR = "preprocessor_config.json"
"""The file beside a config.json that says what becomes of an image."""
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
    """What a tower is read from: the whole file, the processor's, and the width of the language model."""

    whole: Config
    processor: Config
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
        inner = Config(data, config.places, config.read, self.whole.notes)
        mapping = family.mapping(family.of_class(inner))
        inner.report_unread_keys()
        return mapping

    def size(self, fallback: Any) -> Any:
        """The one size that a processor resizes images to, else the tower's own, with a note."""
        for key in ("crop_size", "size"):
            stated = self.processor.get(key, default=None)
            if isinstance(stated, int):
                return [stated, stated]
            if isinstance(stated, dict) and {"height", "width"} <= stated.keys():
                return [stated["height"], stated["width"]]
            if isinstance(stated, dict) and key == "size" and "shortest_edge" in stated:
                return [stated["shortest_edge"]] * 2
        self.note(f"images are resized to {' x '.join(map(str, getattr(fallback, 'value', fallback)))}")
        return fallback

    def bounds(self, least: int, most: int) -> tuple[int, int]:
        """The least and most pixels of an image, as processors state them."""
        size = self.processor.get("size", default=None)
        size = size if isinstance(size, dict) else {}
        low = self.processor.get("min_pixels", default=size.get("shortest_edge"))
        high = self.processor.get("max_pixels", default=size.get("longest_edge"))
        if low is None or high is None:
            self.note(f"an image has {least:,} to {most:,} pixels")
        stated = {"least": low or least, "most": high or most}
        for which, value in stated.items():
            if not isinstance(value, int) or value < 1:
                what = f"the {which} pixels of an image must be a whole number above 0"
                raise ArchError(f"{PROCESSOR}: {what}, not {short_repr(value)}")
        return stated["least"], stated["most"]

    def longest(self, key: str, default: int) -> int:
        """The longest edge that the processor states at a key."""
        stated = self.processor.get(key, default=None)
        value = stated.get("longest_edge") if isinstance(stated, dict) else stated
        if not isinstance(value, int):
            self.note(f"{key} has a longest edge of {default}")
            return default
        return value

    def note(self, text: str) -> None:
        """Say which default of a class stands where no processor's file says otherwise."""
        self.whole.note(f"no {PROCESSOR} says what becomes of an image: {text}")


ENCODERS = {"clip_vision_model", "siglip_vision_model"}
"""Model types of encoders that are families by themselves."""

Reader = Callable[[TowerSource], Mapped]


class Towers(NamedTuple):
    """The towers of a file that are known, the keys that they stand at, and why others are not."""

    towers: list[Mapped]
    keys: list[str]
    reasons: dict[str, str]


def towers_of(whole: Config, mapping: Mapped, text: Mapping[str, Any]) -> Towers:
    """The towers of a wrapper's file, beside a language model with this mapping."""
    known = Towers([], [], {})
    if not any(key.endswith("_config") for key in whole.data if key != "quantization_config"):
        # a flat file of a class outside of transformers states no tower (the first of LLaVA)
        return known
    for (kind, key), place in READERS.items():
        if kind != whole.model_type:
            continue
        module, _, name = place.partition(":")
        read: Reader = getattr(import_module(f"archcli.load.huggingface.wrappers.{module}"), name)
        # notes of a tower that turns out to be unknown are about nothing
        notes = len(whole.notes)
        try:
            tower = read(TowerSource(whole, processor(whole), mapping["d_model"], text))
            tower = {**tower, **_in_prompt(whole, text, key)}
            _require_tower(tower, mapping, whole.places.start)
            known.towers.append(tower)
            known.keys.append(key)
        except ArchError as error:
            del whole.notes[notes:]
            known.reasons[key] = error.problems[0].what
    return known


TOKENS = {
    "llava": 32000,
    "llava_next": 32000,
    "llava_onevision": 151646,
    "mistral3": 10,
    "gemma3": 262144,
    "paligemma": 256000,
    "internvl": 151667,
    "smolvlm": 128257,
    "idefics3": 128257,
    "qwen2_vl": 151655,
    "qwen2_5_vl": 151655,
    "qwen3_vl": 151655,
    "qwen3_vl_moe": 151655,
    "qwen3_5": 248056,
    "qwen3_5_moe": 248056,
    "qwen2_audio": 151646,
    "voxtral": None,
}
"""The tokens in whose place vectors stand: defaults of the classes whose logits tests compare."""
SECTIONS = {
    "qwen2_vl": (16, 24, 24),
    "qwen2_5_vl": (16, 24, 24),
    "qwen3_vl": (24, 20, 20),
    "qwen3_vl_moe": (24, 20, 20),
    "qwen3_5": (11, 11, 10),
    "qwen3_5_moe": (11, 11, 10),
}
"""Pairs of rotary heads that turn by time, row and column, by model_type: defaults of the classes."""
IN_TURN = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
"""Classes whose pairs turn by time, row and column in turn."""


def _in_prompt(whole: Config, text: Mapping[str, Any], key: str) -> Mapped:
    """How the vectors of a tower stand in the prompt; empty of a class of which it is not known."""
    if whole.model_type not in TOKENS:
        return {}
    kind = "audio" if key == "audio_config" else "image"
    named = (whole.get(f"{kind}_token_{end}", default=None) for end in ("id", "index"))
    token = next((value for value in named if value is not None), TOKENS[whole.model_type])
    if type(token) is not int or token < 0:
        return {}
    return {"token": token, **_turned(whole, text)}


def _turned(whole: Config, text: Mapping[str, Any]) -> Mapped:
    """The sections of rotary heads, as the text part states them or its class has them."""
    usual = SECTIONS.get(whole.model_type)
    if usual is None:
        return {}
    stated = next((text[key] for key in ("rope_parameters", "rope_scaling") if text.get(key)), None)
    sections = stated.get("mrope_section", usual) if isinstance(stated, dict) else usual
    if not isinstance(sections, list | tuple) or len(sections) != len(usual):
        raise whole.error(f"mrope_section must be three numbers, not {short_repr(sections)}")
    return {"sections": [*sections], "interleaved": whole.model_type in IN_TURN}


def _require_tower(tower: Mapped, mapping: Mapped, start: Place) -> None:
    """ArchError for a tower that cannot be built: the language model is then counted without it."""
    problems = problems_of_part(Tower, tree_of(tower, start), tree_of(mapping, start))
    if problems:
        raise ArchError(problems)


def processor(whole: Config) -> Config:
    """The processor's file beside a config.json, empty where there is none."""
    file = Path(whole.places.source.name)
    beside = file.with_name(PROCESSOR)
    if file.name != "config.json" or not beside.is_file():
        return Config({}, notes=whole.notes)
    try:
        data = json.loads(decode(read_start(beside, str(beside)), str(beside)))
    except (ValueError, RecursionError, ArchError):
        data = None
    if not isinstance(data, dict):
        whole.note(f"{PROCESSOR} is no JSON object, and not read")
        return Config({}, notes=whole.notes)
    return Config(data, notes=whole.notes)


def linear(width: Any, *, bias: Any = True) -> Mapped:
    """A step W x + b."""
    return {"kind": "linear", "width": width, "bias": bias}


def merged(n: Any) -> Mapped:
    """A step that makes one token of n x n patches."""
    return {"kind": "merge", "block": [n, n]}
