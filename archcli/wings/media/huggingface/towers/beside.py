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
    """The known towers of a file, and the reasons why other parts are not counted.

    towers, keys: mappings of the towers, and their keys in the file.
    reasons: why a part is not counted, by its key.
    settled: keys of parts that are no tower: left out by the file, or read with a tower.
    beside: parameters of other known parts, by name.
    """

    towers: list[Mapped]
    keys: list[str]
    reasons: dict[str, str]
    settled: list[str]
    beside: dict[str, int]


def tower_rows(model_type: str) -> Sequence[TowerRow]:
    """The rows of the towers beside the language model in files of a model_type."""
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
    """The towers of a wrapper's file; `mapping` is that of its language model."""
    known, rows = Towers([], [], {}, [], {}), [row for row in tower_rows(whole.model_type) if row.reader]
    parts = any(key.endswith("_config") for key in whole.data if key != "quantization_config")
    if not parts and FLAT not in [row.key for row in rows]:
        # a file without *_config keys, as those of the first LLaVA, describes no tower
        return known
    for row in rows:
        if row.optional and whole.get(row.key, default=None) is None:
            known.settled.append(row.key)
            continue
        # drop the notes of a tower that turns out to be unknown
        notes = len(whole.notes)
        try:
            source = TowerSource(whole, *hf.image_settings(whole), mapping["d_model"], text)
            for tower in _read(source, _reader(row), mapping, _in_prompt(whole, text, row)):
                if "params" in tower:
                    known.beside[tower["part"]] = tower["params"]
                else:
                    known.towers.append(tower)
            known.keys.append(row.key)
            known.settled.extend(row.joins)
        except ArchError as error:
            del whole.notes[notes:]
            known.reasons[row.key] = error.problems[0].what
            # FLAT is no key of the file: the note on uncounted keys does not mention it
            if row.key == FLAT:
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
    """The placeholder token of a tower, and its rotary sections; {} for a class without known ones."""
    if row.token == NOWHERE:
        return {}
    kind = "audio" if row.key == "audio_config" else "image"
    named = (whole.get(f"{kind}_token_{end}", default=None) for end in ("id", "index"))
    token = next((value for value in named if value is not None), row.token)
    if type(token) is not int or token < 0:
        return {}
    return {"token": token, **_turned(whole, text, row)}


def _turned(whole: Config, text: Mapping[str, Any], row: TowerRow) -> Mapped:
    """The sections of multimodal RoPE (mrope_section), of the text part or of its class."""
    if not row.sections:
        return {}
    rope = next((text[key] for key in ("rope_parameters", "rope_scaling") if text.get(key)), None)
    sections = rope.get("mrope_section", row.sections) if isinstance(rope, dict) else row.sections
    if not isinstance(sections, list | tuple) or len(sections) != len(row.sections):
        raise whole.error(f"mrope_section must be three numbers, not {hf.short_repr(sections)}")
    return {"sections": [*sections], "interleaved": row.in_turn}


def _read(source: TowerSource, read: Reader, mapping: Mapped, place: Mapped) -> list[Mapped]:
    """The towers that a reader makes of a file, the first with its token in the prompt.

    If the encoder cannot read images of the processor's file, weights are counted nevertheless.
    """
    notes = len(source.whole.notes)
    try:
        return _placed(source, read, mapping, place)
    except ArchError as error:
        if not source.in_file:
            raise
        written = source.whole.notes
        del written[notes:]
        usual = Config({}, notes=written, defaults=source.processor.defaults)
        towers = _placed(replace(source, processor=usual, in_file=False), read, mapping, place)
        # drop notes on the processor's defaults: the file has other values
        written[notes:] = [note for note in written[notes:] if not isinstance(note, MediaNote)]
        why = f"by {hf.PROCESSOR} {error.problems[0].what.removeprefix(f'{hf.PROCESSOR}: ')}"
        return [it if "params" in it else {**it, "sizing": unread(why)} for it in towers]


def _placed(source: TowerSource, read: Reader, mapping: Mapped, place: Mapped) -> list[Mapped]:
    """The towers of a reader, each with its sizing, the first with its token in the prompt."""
    towers = read(source)
    return [
        tower
        if "params" in tower
        else _in_place(source.whole, _unresized(source, tower), mapping, {} if number else place)
        for number, tower in enumerate(towers if isinstance(towers, list) else [towers])
    ]


OF_WHOLE_TOKENS = {"multiple": "factor", "largest": "factor", "padded": "cell"}
"""Sizings that may be left out by do_resize, and their key of a factor of both sides."""


def _unresized(source: TowerSource, tower: Mapped) -> Mapped:
    """A tower; without resizing of images if its processor has do_resize: false, and its class reads it."""
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
    """A tower with its token in the prompt; without one if its vectors are not as wide as the text's.

    A class accepts such a file: the defaults of Qwen2-VL to Qwen3.5 are of this kind. ArchError for a tower
    that cannot be built, or reads no image of its default size.
    """
    placed, start = {**place, **tower}, whole.places.start
    built: Tower = built_part(Tower, hf.tree_of(placed, start), hf.tree_of(mapping, start))
    try:
        built.pieces(built.usual)
    except ArchError:
        # the processor's file is wrong on images: an error only for a question with an image
        return placed
    width = built.width
    if placed.get("token") is None or width == hf.bare(mapping["d_model"]):
        return placed
    return {key: value for key, value in tower.items() if key != "token"}
