"""Towers of a wrapper's config.json: which part holds which encoder, and how it is read.

Imported for files with towers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.load.huggingface.towers.readers import FLAT, JOINS, OPTIONAL, READERS, in_prompt
from archcli.load.huggingface.towers.source import TowerSource, unread
from archcli.load.loaded import MediaNote
from archcli.load.spec.build import built_part
from archcli.modules import Tower

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
            source = TowerSource(whole, *hf.image_settings(whole), mapping["d_model"], text)
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
        why = f"by {hf.PROCESSOR} {error.problems[0].what.removeprefix(f'{hf.PROCESSOR}: ')}"
        return [it if "params" in it else {**it, "sizing": unread(why)} for it in towers]


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
    return {**tower, "sizing": unread("its processor does not resize images")}


def _in_place(whole: Config, tower: Mapped, mapping: Mapped, place: Mapped) -> Mapped:
    """A tower with its place in the prompt; without one where its vectors are not as wide as the text's.

    A class is made of such a file all the same: the defaults of Qwen2-VL to Qwen3.5 are such ones. ArchError
    for a tower that cannot be built, or reads no image of its own size.
    """
    placed, start = {**place, **tower}, whole.places.start
    made: Tower = built_part(Tower, hf.tree_of(placed, start), hf.tree_of(mapping, start))
    try:
        made.pieces(made.usual)
    except ArchError:
        # what a processor's file says of images is an error where one is read
        return placed
    width = made.width
    if placed.get("token") is None or width == hf.bare(mapping["d_model"]):
        return placed
    return {key: value for key, value in tower.items() if key != "token"}
