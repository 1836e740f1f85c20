"""The language model of a config.json: a wrapper's text part, or the file itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config, short_repr
from archcli.load.huggingface.config_json import KeyPlaces, Mapped
from archcli.load.huggingface.keys import OF_TOWERS
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.huggingface.wrappers.texts import RENAMED, TEXTS
from archcli.load.huggingface.wrappers.wrapper import TIE, Wrapper
from archcli.load.spec.renamed import OUR_WORD

TOWERS = ("vision", "image", "video", "audio", "speech")
"""Words in the keys of towers; other parts, such as qformer_config, join them to the language model."""


HOLDING = {"t5gemma2": ("encoder", "t5gemma2_encoder", ("vision_config",))}
"""Families with towers inside a part of the file: the part's key, its model_type, the towers."""


class TextPart(NamedTuple):
    """The config of a language model, with the wrapper that it was found in, if any."""

    config: Config
    wrapper: Wrapper | None = None

    @property
    def headed(self) -> tuple[str, ...]:
        """Names of classes that have an output head without the usual ending such as `ForCausalLM`."""
        return () if self.wrapper is None else self.wrapper.headed

    def with_head(self, mapping: Mapped) -> Mapped:
        """The mapping with the head of the wrapper's class."""
        if self.wrapper is None:
            return mapping
        rest = {key: value for key, value in mapping.items() if key != "head"}
        head = self.wrapper.head(mapping.get("head"))
        return rest if head is None else {**rest, "head": head}


def text_part(whole: Config) -> TextPart:
    """The config of the language model in a file: a wrapper's text part, or the file itself."""
    wrapper = WRAPPERS.get(whole.model_type)
    if wrapper is None:
        return TextPart(whole)
    for note in (*_notes(whole, wrapper), *wrapper.left_out.values()):
        whole.note(note)
    text, places = _text(whole, wrapper)
    data = {"model_type": wrapper.text, **wrapper.defaults, **text}
    data = {key: value for key, value in data.items() if key not in wrapper.left_out}
    data |= {key: _of_part(whole, *source) for key, source in wrapper.taken.items()}
    if isinstance(data["model_type"], str):
        data["model_type"] = RENAMED.get(data["model_type"], data["model_type"])
    kind = data["model_type"]
    if kind == wrapper.text and kind in WRAPPERS:
        return text_part(
            Config(
                {"architectures": ["ForConditionalGeneration"], **data},
                places,
                notes=whole.notes,
                reader=whole.reader,
            )
        )
    if not wrapper.any_text and kind != wrapper.text:
        what = f"a {wrapper.key} of model_type {short_repr(kind)} is not supported here"
        raise whole.error(what, f"supported: {wrapper.text}", places.place("model_type"))
    if isinstance(kind, str) and kind in TEXTS:
        data = TEXTS[kind].as_family(kind, data)
    tie, classes = wrapper.tie(whole), whole.value("architectures", default=["ForConditionalGeneration"])
    if wrapper.head_sizes and tie is not None and not tie:
        _check_head(whole, wrapper, data)
    outer = {"architectures": classes, **({} if tie is None else {TIE: tie})}
    for name, value in outer.items():
        data[name] = value.value
    places = places._replace(places={**places.places, **{name: value.place for name, value in outer.items()}})
    reader = kind if whole.reader else ""
    return TextPart(Config(data, places, notes=whole.notes, reader=reader), wrapper)


def _of_part(whole: Config, part: str, key: str, default: int) -> Any:
    """The value of a key in a part of the file or the file itself, or the default of its class."""
    part_data = whole.get(part, default=None) if part else whole.data
    return part_data.get(key, default) if isinstance(part_data, dict) else default


def _check_head(whole: Config, wrapper: Wrapper, text: Mapping[str, Any]) -> None:
    """Refuse an untied head with sizes different from the text part's."""
    for key, default in wrapper.head_sizes.items():
        size = whole.size(key, default=default)
        if size.value != text.get(key):
            what = f"the head has {key} {size}, and the text part {short_repr(text.get(key))}"
            raise whole.error(what, "state the same in both", size.place)


def _text(whole: Config, wrapper: Wrapper) -> tuple[Mapping[str, Any], KeyPlaces]:
    """The text part and the places of its keys; the file itself where its keys are at the top."""
    text = whole.get(wrapper.key, default=None)
    if text is None:
        flat = {key: value for key, value in whole.data.items() if not _is_part(key)}
        if wrapper.partial and "hidden_size" not in flat:
            hint = "its class fills in sizes of its own, which archcli does not know"
            raise whole.error(f"key {wrapper.key!r} is missing", hint)
        return {**flat, "model_type": wrapper.text}, whole.places
    if not isinstance(text, dict):
        what = f"{wrapper.key} must be a mapping, not {short_repr(text)}"
        raise whole.error(what, at=whole.place(wrapper.key))
    outer = {
        key: value
        for key, value in whole.data.items()
        if key not in text and not key.endswith("_config") and not key.startswith(OF_TOWERS)
    }
    whole.ignore(*OUR_WORD, "head_dim", "partial_rotary_factor", "qk_layernorm", TIE)  # of the text part
    replace(whole, data=outer).report_unread_keys()
    return text, whole.places.inner(wrapper.key)


def _is_part(key: str) -> bool:
    """Whether a key holds the config of a part, be it a tower or the language model."""
    return key.endswith("_config") and key != "quantization_config"


def _notes(whole: Config, wrapper: Wrapper) -> Iterator[str]:
    """Notes on the counted part of the file, and on each part that is not counted."""
    place = wrapper.key if wrapper.key in whole.data else "the file itself"
    yield f"only the language model is counted ({place})"
    for key in whole.data:
        if _is_part(key) and key != wrapper.key and key not in wrapper.left_out:
            yield _uncounted(key)


def _uncounted(key: str) -> str:
    """The note that the part at this key is not counted."""
    part = key.removesuffix("_config")
    name = f"{part} tower" if any(word in part for word in TOWERS) else part
    return f"{name} ({key}) is not counted, nor what joins it to the language model"


def innermost(whole: Config) -> Config:
    """The part that holds the towers: the file itself, or a part of it (Qwen-Omni)."""
    wrapper = WRAPPERS.get(whole.model_type)
    if whole.model_type in HOLDING:
        key, kind, towers = HOLDING[whole.model_type]
        held = whole.get(key, default=None)
        held = held if isinstance(held, dict) else {}
        # the class makes towers that the file leaves out
        empty: Mapped = {tower: {} for tower in towers if held.get(tower) is None}
        data = {"model_type": kind, **held, **empty}
        return Config(data, whole.places.inner(key), notes=whole.notes, reader=whole.reader)
    if wrapper is None:  # a family's own file
        return whole
    inner = whole.get(wrapper.key, default=None)
    if wrapper.text not in WRAPPERS or not isinstance(inner, dict):
        return whole
    data = {"model_type": wrapper.text, **inner}
    return Config(data, whole.places.inner(wrapper.key), notes=whole.notes, reader=whole.reader)


def uncounted(whole: Config, known: Sequence[str]) -> list[str]:
    """The keys of unknown parts beside the language model."""
    wrapper = WRAPPERS.get(whole.model_type)
    text = "text_config" if wrapper is None else wrapper.key
    return [key for key in whole.data if _is_part(key) and key not in (text, *known)]


def note_counted(
    whole: Config, keys: Sequence[str], reasons: Mapping[str, str], settled: Sequence[str] = ()
) -> None:
    """Note the towers that are counted beside the language model, and why others are not."""
    none = [*map(_uncounted, settled)]
    whole.notes[:] = [note for note in whole.notes if note not in none]
    if keys:
        alone, tower_keys = "only the language model is counted", " and ".join(keys)
        counted = f"figures are those of the language model{{}}; those of {tower_keys} stand beside them"
        whole.notes[:] = [
            counted.format(note.removeprefix(alone)) if note.startswith(alone) else note
            for note in whole.notes
            if note not in map(_uncounted, keys)
        ]
    for key, reason in reasons.items():
        whole.notes[:] = [f"{note}: {reason}" if note == _uncounted(key) else note for note in whole.notes]


def note_towers(config: Config, keys: Sequence[str]) -> None:
    """Note the towers that a language model's own file states under these keys."""
    for key in keys:
        if config.get(key, default=None) is not None:
            config.note(_uncounted(key))
