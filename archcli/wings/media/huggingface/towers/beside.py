"""Towers of a wrapper's config.json: which part holds which encoder, and how it is read.

Imported for files with towers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load import huggingface as hf
from archcli.load.huggingface import Config, Mapped
from archcli.load.huggingface.family import NOWHERE, TowerRow
from archcli.load.huggingface.registry import family_of
from archcli.load.huggingface.wrappers.table import FLAT, WRAPPERS
from archcli.load.huggingface.wrappers.text import HOLDING
from archcli.load.loaded import MediaNote
from archcli.load.spec.build import built_part
from archcli.modules import Tower
from archcli.plugins import installed, loaded
from archcli.wings.media.huggingface.towers.source import TowerSource, unread

GROUP = "archcli.towers"
"""The entry points by which an installed distribution offers towers of a wrapper."""
HELD = {held: kind for kind, (_, held, _) in HOLDING.items()}
"""Model types of parts that hold a family's towers, and the family."""
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


def tower_rows(model_type: str) -> Sequence[TowerRow]:
    """The rows of the parts that stand beside the language model in files of a model_type."""
    if model_type in WRAPPERS:
        return WRAPPERS[model_type].towers or _installed_rows(model_type)
    family = family_of(HELD.get(model_type, model_type))
    return () if family is None else family.towers


def _installed_rows(model_type: str) -> Sequence[TowerRow]:
    """The rows that an installed distribution offers for a wrapper whose towers archcli does not know."""
    entry = next((entry for entry in installed(GROUP) if entry.name == model_type), None)
    if entry is None:
        return ()
    rows = loaded(entry)
    if isinstance(rows, TowerRow) or not all(isinstance(row, TowerRow) for row in rows):
        raise ArchError(f"{model_type!r} of {GROUP} ({entry.value}) cannot be used: no tuple of TowerRow")
    return tuple(rows)


def towers_of(whole: Config, mapping: Mapped, text: Mapping[str, Any]) -> Towers:
    """The towers of a wrapper's file, beside a language model with this mapping."""
    known, rows = Towers([], [], {}, [], {}), [row for row in tower_rows(whole.model_type) if row.reader]
    parts = any(key.endswith("_config") for key in whole.data if key != "quantization_config")
    if not parts and FLAT not in [row.key for row in rows]:
        # a flat file of a class outside of transformers states no tower (the first of LLaVA)
        return known
    for row in rows:
        if row.optional and whole.get(row.key, default=None) is None:
            known.settled.append(row.key)
            continue
        # notes of a tower that turns out to be unknown are about nothing
        notes = len(whole.notes)
        try:
            source = TowerSource(whole, *hf.image_settings(whole), mapping["d_model"], text)
            for tower in _made(source, _reader(row), mapping, _in_prompt(whole, text, row)):
                if "params" in tower:
                    known.beside[tower["part"]] = tower["params"]
                else:
                    known.towers.append(tower)
            known.keys.append(row.key)
            known.settled.extend(row.joins)
        except ArchError as error:
            del whole.notes[notes:]
            known.reasons[row.key] = error.problems[0].what
            if row.key == FLAT:  # no key of the file, of which another note would say it
                whole.note(f"{row.key} is not counted: {known.reasons[row.key]}")
    return known


def _reader(row: TowerRow) -> Reader:
    """The function that a row names."""
    module, _, name = row.reader.partition(":")
    try:
        read: Reader = getattr(import_module(module, "archcli.wings.media.huggingface.towers"), name)
    except (ImportError, AttributeError) as error:
        raise ArchError(f"its reader {row.reader} cannot be used: {error}") from None
    return read


def _in_prompt(whole: Config, text: Mapping[str, Any], row: TowerRow) -> Mapped:
    """How the vectors of a tower stand in the prompt; empty of a class of which it is not known."""
    if row.token == NOWHERE:
        return {}
    kind = "audio" if row.key == "audio_config" else "image"
    named = (whole.get(f"{kind}_token_{end}", default=None) for end in ("id", "index"))
    token = next((value for value in named if value is not None), row.token)
    if type(token) is not int or token < 0:
        return {}
    return {"token": token, **_turned(whole, text, row)}


def _turned(whole: Config, text: Mapping[str, Any], row: TowerRow) -> Mapped:
    """The sections of rotary heads, as the text part states them or its class has them."""
    if not row.sections:
        return {}
    stated = next((text[key] for key in ("rope_parameters", "rope_scaling") if text.get(key)), None)
    sections = stated.get("mrope_section", row.sections) if isinstance(stated, dict) else row.sections
    if not isinstance(sections, list | tuple) or len(sections) != len(row.sections):
        raise whole.error(f"mrope_section must be three numbers, not {hf.short_repr(sections)}")
    return {"sections": [*sections], "interleaved": row.in_turn}


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
