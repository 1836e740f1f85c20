"""The config.json of a model: the file whose import is the model, setting for setting.

An importer is a function from a config.json to settings, and is asked backwards: the file begins with the
sizes of the model, each key that the importer reads is tried with values that the model has where the file
differs, and kept where fewer settings differ then. So Hugging Face's keys are known in one place, the
importer, and a file that is found is right by construction: reading it gives the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations, permutations
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.family import Family, default_words
from archcli.load.spec.renamed import OUR_WORD
from archcli.modules import Model
from archcli.wings.shapes.export import values
from archcli.wings.shapes.export.reading import Data, WatchedConfig, as_text, missing_key, read_back
from archcli.wings.shapes.export.settings import Leaves, Settings, runs_alike, unequal

CLASS = "architectures"
ROUNDS = 6
"""How often all keys are tried: a key may be of use only once another is set."""
UNMOVED = 3
"""After so many values that change nothing, a key is left."""
MOST_MISSING = 4
"""So many keys without a default are filled, one after the other."""
MOST_READ = 4_000
"""No further pairs of keys are tried once so many files were read."""
FEW = 3
"""Pairs of keys are tried where so few settings differ."""
SAME = 1e-9
DERIVED = "auto"
"""A default in place of a number that follows from others."""


class WrittenConfig(NamedTuple):
    """A config.json, and the settings in which its import differs from the model: none where it is exact."""

    data: Data
    lacking: Leaves

    @property
    def is_exact(self) -> bool:
        """Whether nothing differs."""
        return not self.lacking


class ConfigSearch:
    """The search for a file of one model_type."""

    def __init__(self, model_type: str, family: Family, model: Model, wanted: Settings) -> None:
        """Begin with the defaults of the family's class; `wanted` are the settings of the model."""
        self.model_type, self.family, self.model, self.wanted = model_type, family, model, wanted
        self.all_wanted = list(wanted.everywhere())
        self.data: Data = {"model_type": model_type, CLASS: [values.classes(model_type)[0]]}
        self.read: Settings | None = None
        self.lacking: Leaves = {}
        self.watched: dict[str, set[Any]] = {}
        self.objects: dict[str, WatchedConfig] = {}
        self._tried: dict[str, Leaves | None] = {}

    @property
    def off(self) -> float:
        """How much differs: a setting of half of the layers is a half."""
        return float("inf") if self.read is None else sum(self.lacking.values())

    def first_off(self) -> float:
        """How much differs with the sizes of the model alone; no search is made."""
        sizes = self._sizes()
        moved = self._differing({**self.data, **sizes}) or self._differing(self.data)
        self._tried.clear()
        return float("inf") if moved is None else sum(moved[1].values())

    def _begin(self) -> None:
        """Set the sizes that are one number in the model, and keys that have to be there."""
        for _ in range(MOST_MISSING):
            key = "" if self._start() else missing_key(self.data)
            if not key:
                break
            self._fill(key)
        if self.read is None:
            self._accepts(self.data)

    def _start(self) -> bool:
        """Take over all sizes; where they are refused, with another flag, or without one or two."""
        sizes = self._sizes()
        flags = [{key: not value} for key, value in self._known().items() if isinstance(value, bool)]
        without = [
            {key: value for key, value in sizes.items() if key not in left}
            for n in (1, 2)
            for left in combinations(sizes, n)
        ]
        starts = (sizes, *({**sizes, **flag} for flag in flags), *without)
        return any(self._accepts({**self.data, **start}) for start in starts)

    def _sizes(self) -> Data:
        """The keys of fields that have one value in the model, but for those of objects in the file."""
        keys = [key for key in self.keys() if not any(key in part.watched for part in self.objects.values())]
        return {key: value for key in keys for value in self._only(key)}

    def _fill(self, key: str) -> None:
        """Set a key that has to be there to the first number with which it is another that is missing."""
        for value in (*values.numbers(None, {}, {}, self.all_wanted), True, False, 0, 1):
            self.data[key] = value
            if self._accepts(self.data) or missing_key(self.data) not in ("", key):
                return
        self.data.pop(key, None)

    def run(self) -> WrittenConfig | None:
        """Try keys until nothing differs, or none helps; None where every file is refused."""
        self._begin()
        for _ in range(ROUNDS):
            before = self.off
            if self._is_exact():
                break
            for key in (CLASS, *self.keys()):
                if self.off:
                    self._improve(key)
            if self.off == before:
                break
        if not self._is_exact() and len(self.lacking) <= FEW:
            self._improve_pairs()
            self._is_exact()
        self._state_sizes()
        self._state_objects()
        return None if self.read is None else WrittenConfig(self.data, self.lacking)

    def _state_sizes(self) -> None:
        """State sizes that are the class's defaults too: a reader refuses a file without any."""
        known, sizes = self._known(), [key for key in self.keys() if int in self.watched.get(key, ())]
        defaults = {key: known[key] for key in sizes if known.get(key) is not None}
        data = {**defaults, **self.data}
        moved = self._differing(data)
        if moved is not None and moved[1] == self.lacking:
            self.data = data

    def _state_objects(self) -> None:
        """State all that is read of an object in the file: not every class has defaults for it."""
        for key, part in self.objects.items():
            usual = {name: value for name in part.read for value in self._only(name)}
            usual |= {
                name: part.defaults[name] for name in part.watched if part.defaults.get(name) is not None
            }
            data = {**self.data, key: {**usual, **self.data.get(key, {})}}
            moved = self._differing(data)
            if moved is not None and moved[1] == self.lacking:
                self.data = data

    def _is_exact(self) -> bool:
        """Whether nothing differs, or what differs is another way to state the same forward."""
        if self.read is not None and self.off and runs_alike(read_back(self.data), self.model):
            self.lacking = {}
        return not self.off

    def keys(self) -> list[str]:
        """The keys that the importer reads of the file as it is, those of sizes first."""
        config = WatchedConfig(self.data)
        with suppress(ArchError):
            self.family.mapping(self.family.of_class(config))
        self.watched, self.objects = config.watched, config.objects
        lists = {key for key in config.read if key.endswith(values.LISTS_OF_LAYERS)}
        read = lists.union(config.watched) - {*self.family.aliases} - {"model_type", CLASS}
        return sorted(read, key=lambda key: (not self._our_word(key), key))

    def _our_word(self, key: str) -> str:
        ours = {word: name for name, word in self.family.aliases.items()}
        return OUR_WORD.get(key) or OUR_WORD.get(ours.get(key, ""), "")

    def _known(self) -> Data:
        """The values of keys, those of the class's defaults included."""
        return {**self.family.of_class(Config(self.data)).defaults, **self.data}

    def _only(self, key: str) -> Iterator[Any]:
        """The value of our field for a key, if all such fields of the model have one."""
        name = self._our_word(key)
        wanted = {value for path, value in self.all_wanted if name and path.split(".")[-1] == name}
        if len(wanted) == 1:
            yield wanted.pop()

    def _accepts(self, data: Data) -> bool:
        """Take a file over if it is not refused and fewer settings differ."""
        moved = self._differing(data)
        return moved is not None and self._take(data, *moved)

    def _take(self, data: Data, read: Settings, lacking: Leaves) -> bool:
        if sum(lacking.values()) > self.off - SAME:
            return False
        self.data, self.read, self.lacking = dict(data), read, lacking
        return True

    def _differing(self, data: Data) -> tuple[Settings, Leaves] | None:
        """The settings of a file and those that differ; None where it is refused, or was tried before."""
        text = as_text(data)
        if text in self._tried:
            return None
        self._tried[text] = None
        try:
            read = Settings(read_back(data))
        except ArchError:
            return None
        lacking = self._tried[text] = read.differing(self.wanted)
        return read, lacking

    def _improve(self, key: str) -> None:
        """Try the values of one key that the model may have there; leave it where they change nothing."""
        unmoved = 0
        for value in self._values(key):
            before = self.lacking
            moved = self._try({**self.data, key: value})
            unmoved = 0 if self.lacking is not before else unmoved + (moved == before)
            if not self.off or (unmoved == UNMOVED and key not in {CLASS, *self.objects}):
                return

    def _try(self, data: Data, depth: int = MOST_MISSING) -> Leaves | None:
        """Take a file over if it is better, with keys that it then needs; returns what it lacks."""
        moved = self._differing(data)
        if moved is not None:
            self._take(data, *moved)
            return moved[1]
        key = missing_key(data) if depth else ""
        for value in self._numbers(None, whole=True) if key and key not in data else ():
            before = self.lacking
            self._try({**data, key: value}, depth - 1)
            if self.lacking is not before:
                break
        return None

    def _improve_pairs(self) -> None:
        """Set two keys at once, neither of which helps alone: a number of heads, and their width."""
        lacked = [value for path, value in self.all_wanted if any(it.endswith(path) for it in self.lacking)]
        singles = [(key, it) for key in self.keys() for it in self._values(key) if isinstance(it, int)]
        moving = [single for single in singles if self._moves(*single)]
        for (key, value), (second, another) in permutations(moving, 2):
            if len(self._tried) > MOST_READ:
                return
            both = {**self.data, key: value, second: another}
            if value in lacked and second != key and self._accepts(both):
                return

    def _moves(self, key: str, value: int) -> bool:
        """Whether a value of a key is refused, or changes what differs."""
        data = {**self.data, key: value}
        self._differing(data)
        return self._tried[as_text(data)] != self.lacking

    def _values(self, key: str) -> Iterator[Any]:
        """Values of a key to be tried, of the kind that it takes."""
        value, takes = self._known().get(key), self.watched.get(key, set())
        if key == CLASS:
            yield from ([name] for name in values.classes(self.model_type))
        elif key in self.objects:
            yield from self._in_object(key)
        elif isinstance(value, bool) or bool in takes:
            yield from (it for it in (True, False) if it is not value)
        elif isinstance(value, dict):
            yield from values.ropes(self.wanted)
            yield from self._inner(value)
        elif value == DERIVED:
            yield from self._numbers(None, whole=True)
        elif takes & {int, float} or isinstance(value, int | float):
            numbers = self._numbers(value, whole=int in takes)
            if isinstance(value, float) or (float in takes and not isinstance(value, int)):
                numbers = list(map(float, numbers))  # some classes refuse 16 for 16.0
            yield from (None, *numbers) if self._lacks_nothing() else (*numbers, None)
        elif isinstance(value, str) or takes:
            yield from (*takes, *default_words(key))
        else:
            yield from self._unstated(key)

    def _lacks_nothing(self) -> bool:
        """Whether the model has None where the file has another value."""
        return any(
            value is None and any(it.endswith(path) for it in self.lacking) for path, value in self.all_wanted
        )

    def _unstated(self, key: str) -> Iterator[Any]:
        """Values of a key that the class leaves open, or of a list."""
        if "rope" in key:
            yield from values.ropes(self.wanted)
            return
        yield from self._of_layers(key)
        yield from (True, False)
        yield from self._numbers(None)
        yield from default_words(key)

    def _in_object(self, key: str) -> Iterator[Data]:
        """The object of a key with one of the keys that are read of it set."""
        part = self.objects[key]
        for name in part.watched:
            value = self.data.get(key, {}).get(name, part.defaults.get(name))
            tried = [not value] if isinstance(value, bool) else self._numbers(value)
            yield from ({**self.data.get(key, {}), name: it} for it in tried)

    def _inner(self, value: Data) -> Iterator[Data]:
        """An object with one of its entries changed."""
        for name, item in value.items():
            if isinstance(item, bool):
                yield {**value, name: not item}
            elif isinstance(item, int | float):
                yield from ({**value, name: number} for number in self._numbers(item))

    def _numbers(self, value: float | None, *, whole: bool = False) -> list[Any]:
        ours = {} if self.read is None else dict(self.read.everywhere())
        numbers = values.numbers(value, self.lacking, ours, self.all_wanted)
        by_layer = any(share < 1 or path.startswith("layers.") for path, share in self.lacking.items())
        tried = dict.fromkeys([*numbers, *(values.places(self.wanted) if by_layer else ())])
        return [int(it) if it == int(it) else it for it in tried if not whole or it == int(it)]

    def _of_layers(self, key: str) -> Iterator[list[Any]]:
        """Lists with an entry for each layer, or with the numbers of layers of a kind."""
        if "pattern" in key:  # a text with a letter for each layer
            return
        yield from values.numbered_layers(self.wanted)
        for path, layers in self.wanted.stacks.items():
            known: dict[str, list[Leaves]] = {}
            for name in values.words_for_layers(key):
                moved = self._differing({**self.data, key: [name] * len(layers)})
                if moved is not None and len(moved[0].stacks.get(path, ())) == len(layers):
                    known[name] = moved[0].stacks[path]
            if len(known) > 1:
                yield [_nearest(known, index, layer) for index, layer in enumerate(layers)]


def _nearest(known: dict[str, list[Leaves]], index: int, wanted: Leaves) -> str:
    """The word for a layer with which the fewest of its settings differ."""
    return min(known, key=lambda name: len(unequal(known[name][index], wanted)))
