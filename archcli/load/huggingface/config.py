"""Config: reads a config.json key by key, for the importers of all families.

A family is a pure function from a `Config` to the mapping that YAML would hold. Hugging Face's names of keys
occur in this folder alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from sys import float_info
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.load.huggingface.config_json import ConfigValue, KeyPlaces, unplaced
from archcli.load.huggingface.keys import HARMLESS, HARMLESS_ENDINGS, HEADS
from archcli.load.spec.renamed import OUR_WORD
from archcli.load.yaml.nodes import Place

MISSING = object()
MOST_LAYERS = 100_000
"""No model has a thousandth of it, and every layer is written out while a pattern is looked for."""

# above every size there is; products of a few such numbers are still quick
LARGEST = 10**18
# keys that notes name one by one
MOST_REPORTED = 20
# characters of a value that a message quotes
MOST_SHOWN = 60
READ_BY_CLASSES = ("_config_dict", "has_lora_adapter")
"""Keys that a class reads and archcli does not: CLIP's older words of its parts, Granite Speech's adapter."""
COUNTED = re.compile("n_|num_")
"""How keys of numbers begin, by one word or the other."""


def short_repr(value: Any) -> str:
    """A value of a file as messages quote it, cut to one line."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def is_number(value: Any) -> bool:
    """Whether this is a real number that a float holds, which NaN, Infinity and 10**400 are not."""
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= float_info.max


def is_within(part: Any, whole: Any) -> bool:
    """Whether a mapping has all that another states, such as CLIP's text_config its text_config_dict."""
    if not isinstance(part, dict) or not isinstance(whole, dict):
        return False
    return all(whole.get(key) == value for key, value in part.items() if value is not None)


@dataclass
class Config:
    """A config.json, or an object in it, with the defaults of its class in transformers.

    data, places: its keys, and their places in the file.
    read: keys read so far, so that none is ignored in silence. notes: for the user.
    defaults: of the family's class. aliases: its words for the common keys (GPT-2: hidden_size is n_embd).
    sizes: names of sizes in the file, inner objects included.
    defaulted: sizes missing in the file, with the class's word and value.
    reader: the class in transformers; empty for a class in a repository.
    """

    data: Mapping[str, Any]
    places: KeyPlaces = field(default_factory=lambda: unplaced("config.json"))
    read: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    sizes: set[str] = field(default_factory=set)
    defaulted: dict[str, tuple[str, Any]] = field(default_factory=dict)
    reader: str = ""

    def with_defaults(self, **more: Any) -> Config:
        """The same file with further defaults, such as those of its class in transformers.

        Its keys are understood, even where other settings leave no use for them.
        """
        self.read.update(more)
        return replace(self, defaults={**self.defaults, **more})

    def with_words(self, **aliases: str) -> Config:
        """The same file with its class's words for common keys, such as hidden_size="n_embd"."""
        self.read.update(aliases.values())
        return replace(self, aliases=aliases)

    def inner(self, key: str, defaults: Mapping[str, Any]) -> Config:
        """The object that a key holds, with the defaults of its class."""
        data = self.get(key, default={})
        if not isinstance(data, dict):
            raise self.error(f"{key} must be a mapping, not {short_repr(data)}", at=self.place(key))
        inner = Config(data, self.places.inner(key), set(), self.notes, defaults, sizes=self.sizes)
        return replace(inner, reader=self.reader)

    def error(self, what: str, hint: str = "", at: Place | None = None) -> ArchError:
        """An ArchError about this file, with a caret where `at` is the place of a key."""
        start = self.places.start
        return ArchError(self.places.report(Problem(what, hint, (at or start).mark())))

    def place(self, *names: str) -> Place:
        """The place of the first of these keys that is present and not null, else the whole file."""
        return self.places.place(
            *(name for name in self._key_names(names) if self.data.get(name) is not None)
        )

    def _key_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(word for name in names for word in dict.fromkeys((self.aliases.get(name, name), name)))

    def value(self, *names: str, default: Any = MISSING) -> ConfigValue[Any]:
        """The value of the first key present and not null, else the class's default, else `default`.

        Raises ArchError where the key has no default.
        """
        synonyms = self._key_names(names)
        self.read.update(synonyms)
        for name in synonyms:
            if self.data.get(name) is not None:
                return ConfigValue(self.data[name], self.places.place(name))
        for name in synonyms:
            if self.defaults.get(name) is not None:
                return ConfigValue(self.defaults[name], self.places.start)
        if default is MISSING:
            hint = "the class of this model has no default for it"
            raise self.error(f"key {self._key_name(names[0])!r} is missing", hint)
        return default if isinstance(default, ConfigValue) else ConfigValue(default, self.places.start)

    def get(self, *names: str, default: Any = MISSING) -> Any:
        """`value` without its place, for keys that become no field of their own."""
        return self.value(*names, default=default).value

    def stated_null(self, name: str) -> bool:
        """Whether the file states null, which means none; a missing key means the class's default."""
        self.read.add(name)
        return name in self.data and self.data[name] is None

    def size(self, *names: str, default: Any = MISSING) -> ConfigValue[int]:
        """A whole number above zero, or the default."""
        entry = self.value(*names, default=default)
        self.sizes.update(name for name in self._key_names(names) if self.data.get(name) is not None)
        if entry.value is default or entry is default:
            return entry
        if not any(self.data.get(name) is not None for name in self._key_names(names)):
            self.defaulted[names[0]] = (self._key_name(names[0]), entry.value)
        return self.as_size(names[0], entry)

    def as_size(self, name: str, entry: ConfigValue[Any]) -> ConfigValue[int]:
        """A value of the key `name` as a whole number above zero."""
        value, word = entry.value, self._key_name(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise self.error(
                f"{word} must be a whole number above 0, not {short_repr(value)}", at=entry.place
            )
        if value > LARGEST:
            raise self.error(f"{word} is beyond reason", f"at most {LARGEST:,} is read", entry.place)
        return entry.derive(value)

    def optional_size(self, *names: str) -> ConfigValue[int] | None:
        """A whole number above zero, or None where file and class have none."""
        return self.size(*names) if self.get(*names, default=None) is not None else None

    def count(self, *names: str, default: Any = MISSING) -> ConfigValue[int]:
        """A whole number, zero allowed."""
        value = self.value(*names, default=default)
        return value.derive(0) if value.value == 0 else self.size(*names, default=default)

    def number(self, *names: str, default: Any = MISSING) -> ConfigValue[float]:
        """A real number."""
        entry = self.value(*names, default=default)
        if not is_number(entry.value):
            what = f"{self._key_name(names[0])} must be a number, not {short_repr(entry.value)}"
            raise self.error(what, at=entry.place)
        return entry.derive(float(entry.value))

    def flag(self, *names: str, default: Any = MISSING) -> ConfigValue[bool]:
        """true or false."""
        entry = self.value(*names, default=default)
        if not isinstance(entry.value, bool):
            what = f"{self._key_name(names[0])} must be true or false, not {short_repr(entry.value)}"
            raise self.error(what, at=entry.place)
        return entry

    def nullable_flag(self, *names: str, default: Any = MISSING) -> ConfigValue[bool]:
        """true or false, of a class that takes null for false."""
        null = self.stated_null(self._key_name(names[0]))
        return ConfigValue(False, self.place(*names)) if null else self.flag(*names, default=default)

    def _key_name(self, name: str) -> str:
        """The family's own name of a common key, such as n_embd for hidden_size."""
        return name if name in self.data else self.aliases.get(name, name)

    def only(self, name: str, *allowed: Any, default: Any = MISSING) -> None:
        """Refuse any value of a key but the supported ones."""
        value = self.value(name, default=default)
        if value.value not in allowed:
            meant = " or ".join(repr(item) for item in allowed)
            what = f"{name} {short_repr(value.value)} is not supported"
            raise self.error(what, f"supported: {meant}", value.place)

    def ignore(self, *names: str) -> None:
        """Mark keys as read that change no count and no logit of a plain forward."""
        self.read.update(names)

    def restated(self, **known: Any) -> None:
        """Mark keys as read if they state what the class does anyway, without reading them."""
        self.ignore(*(name for name, value in known.items() if self.data.get(name) == value))

    def note(self, text: str) -> None:
        """Add a note on the import, unless it is already there."""
        if text not in self.notes:
            self.notes.append(text)

    def layers(self) -> int:
        """The number of layers, at most a fixed limit."""
        count = self.size("num_hidden_layers")
        if count.value > MOST_LAYERS:
            what = f"{self._key_name('num_hidden_layers')} {count} is beyond reason"
            raise self.error(what, f"at most {MOST_LAYERS:,} are read", count.place)
        return count.value

    def per_layer(self, name: str, count: int) -> list[Any] | None:
        """A list with an entry for each layer, cut to as many as there are; None where the file has none."""
        entries = self.get(name, default=None)
        if entries is None:
            return None
        if not isinstance(entries, list) or len(entries) < count:
            shown = f"{len(entries)} entries" if isinstance(entries, list) else short_repr(entries)
            what = f"{name} must have an entry for each of {count} layers, not {shown}"
            raise self.error(what, at=self.place(name))
        return entries[:count]

    @property
    def model_type(self) -> str:
        """The word that names the family."""
        kind = self.value("model_type", default="")
        hint = "it names the family, such as llama; `archcli families` lists all"
        if not isinstance(kind.value, str):
            raise self.error(f"model_type must be a string, not {short_repr(kind.value)}", hint, kind.place)
        if not kind.value:
            raise self.error("key 'model_type' is missing", hint)
        return kind.value

    @property
    def architecture(self) -> str:
        """The first class in `architectures`, or empty."""
        classes = self.get("architectures", default=None)
        first = classes[0] if isinstance(classes, list) and classes else classes
        return first if isinstance(first, str) else ""

    @property
    def has_head(self) -> bool:
        """Whether the file's class has an output head; a base model has none."""
        return self.architecture.endswith(HEADS)

    def only_architectures(self, *known: str) -> None:
        """Refuse any class in `architectures` but the supported ones."""
        if self.architecture and self.architecture not in known:
            what = f"architecture {short_repr(self.architecture)} is not supported"
            raise self.error(what, "known: " + ", ".join(known), self.place("architectures"))

    def labels(self) -> ConfigValue[int]:
        """The number of labels of a classifier, by default 2."""
        named = self.value("id2label", default={})
        if isinstance(named.value, dict | list) and named:
            return named.derive(len(named.value))
        return self.size("num_labels", default=2)

    def unread_keys(self) -> list[str]:
        """Keys that were not read and whose value is not null, false, 0 or empty."""
        harmless = HARMLESS.union(self.read, self._windowless(), self._said_twice(), self._restated())
        return [
            str(key)
            for key, value in self.data.items()
            if value and key not in harmless and not str(key).endswith(HARMLESS_ENDINGS)
        ]

    def _windowless(self) -> tuple[str, ...]:
        """Keys of a window that the file itself switches off, or does not have."""
        off = self.data.get("use_sliding_window") is False or not self.data.get("sliding_window")
        return ("sliding_window", "max_window_layers") if off else ()

    def _said_twice(self) -> list[str]:
        """Keys that repeat a size under another name, as old Falcon files do with n_head."""
        known = [(OUR_WORD.get(name, name), self.data.get(name)) for name in self.sizes]
        return [key for key, value in self.data.items() if (OUR_WORD.get(key), value) in known]

    def _restated(self) -> list[str]:
        """Keys whose value another key states: num_shared_experts and n_shared_experts, a part's `_dict`."""
        counts = {COUNTED.sub("", key): self.data.get(key) for key in self.read if COUNTED.match(key)}
        return [
            key
            for key, value in self.data.items()
            if (COUNTED.match(str(key)) and counts.get(COUNTED.sub("", key)) == value)
            or (str(key).endswith("_config_dict") and is_within(value, self.data.get(key[: -len("_dict")])))
        ]

    def report_unread_keys(self) -> None:
        """Note every key that was not understood; none changes a count that the class does not read."""
        unread = self.unread_keys()
        if self.reader:
            without = [key for key in unread if not key.endswith(READ_BY_CLASSES)]
            unread = [key for key in unread if key not in without]
            self._note_without_effect(without)
        for key in unread[:MOST_REPORTED]:
            self.note(f"key {short_repr(key)} was not understood and may change the count")
        if len(unread) > MOST_REPORTED:
            self.note(f"{len(unread) - MOST_REPORTED} more keys were not understood and may change the count")

    def _note_without_effect(self, keys: list[str]) -> None:
        """Name keys that the file's class does not read, as a misspelt one is."""
        shown = ", ".join(map(short_repr, keys[:MOST_REPORTED]))
        more = f" and {len(keys) - MOST_REPORTED} more" if len(keys) > MOST_REPORTED else ""
        if keys:
            self.note(f"the class of {self.reader} does not read {shown}{more}")
