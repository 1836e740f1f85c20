"""Family: how files of a model_type are read. A file of `families/` has a row for each of its types.

Defaults of classes in transformers stand in class_defaults.json, a line a class, which
`tests/mappings/test_class_defaults.py` makes. No part of archcli imports transformers to read a config.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import Mapped
from archcli.load.huggingface.weights.map import Weights

CLASS_DEFAULTS = Path(__file__).with_name("class_defaults.json")
NOTHING: Mapping[str, Any] = MappingProxyType({})

NOWHERE = -1
"""In the place of a token: how vectors of a tower stand in the prompt is not known."""

Reader = Callable[[Config], Mapped]
"""A function from a config.json to a mapping such as YAML holds, of a whole model or of a part of it."""


class TowerRow(NamedTuple):
    """A part of a file beside its language model: how it is read, and how its vectors stand in the prompt.

    reader: a file of `towers/` and its function, such as .llava:gemma3; of a package of yours, such as
        my_package.towers:eye; empty for a part that is not counted.
    key: of the part in the file.
    joins: further keys that the reader reads: parts of its projector.
    optional: the class has the tower only where the file states it; others it makes of defaults.
    token: the class's default of the token in whose place vectors stand; None for none, NOWHERE if unknown.
    sections: pairs of rotary heads that turn by time, row and column, by default.
    in_turn: these pairs turn by time, row and column in turn.
    names: the names of its tensors, in `wings/media/huggingface/weights.py`.
    """

    reader: str = ""
    key: str = "vision_config"
    joins: tuple[str, ...] = ()
    optional: bool = False
    token: int | None = NOWHERE
    sections: tuple[int, ...] = ()
    in_turn: bool = False
    names: str = ""


class Family(NamedTuple):
    """How files of a model_type are read.

    about: what it is and its classes in transformers, in a line of `archcli families`.
    mapping: what YAML would say of a file, which comes with the defaults of its class.
    weights: the names of stored tensors, or a function that gives those of a file; None where unknown.
    aliases: the class's words for common keys; GPT-2: hidden_size is n_embd.
    defaults: those that class_defaults.json does not say, or says otherwise; None takes a key away.
    defaults_of: the model_type whose class has the defaults, where it is another's.
    headed: classes with an output head that no ending of their name tells.
    towers: parts of its file beside the language model.
    ties_unstored_head: a checkpoint without a head is a tied model's, whatever the file says.
    reads_per_layer: per_layer_config is read.
    """

    about: str
    mapping: Reader
    weights: Weights | Callable[[Config], Weights] | None = None
    aliases: Mapping[str, str] = NOTHING
    defaults: Mapping[str, Any] = NOTHING
    defaults_of: str = ""
    headed: tuple[str, ...] = ()
    towers: tuple[TowerRow, ...] = ()
    ties_unstored_head: bool = False
    reads_per_layer: bool = False

    def of_class(self, config: Config) -> Config:
        """The file with the defaults and key names of its class."""
        known = {**class_defaults(self.defaults_of or config.model_type), **self.defaults}
        known = {key: value for key, value in known.items() if value is not None}
        return config.with_defaults(**known).with_words(**self.aliases)

    def names(self, config: Config) -> Weights | None:
        """The names of stored tensors of a file that has the defaults of its class."""
        return self.weights(config) if callable(self.weights) else self.weights


def class_defaults(model_type: str) -> Mapping[str, Any]:
    """The defaults of the class of a model_type, of the keys that are read; empty for one of no class."""
    return MappingProxyType(value_at(CLASS_DEFAULTS, model_type) or {})


@cache
def default_words(key: str) -> tuple[str, ...]:
    """What classes have at a key by default, where that is a word."""
    known = json.loads(_text(CLASS_DEFAULTS)).values()
    defaults = (of_class.get(key) for of_class in known if isinstance(of_class, dict))
    return tuple(dict.fromkeys(word for word in defaults if isinstance(word, str)))


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def value_at(path: Path, key: str) -> Any:
    """The value of a key in a JSON file of one object with a key a line; None without a line for it."""
    text, name = _text(path), f"\n{json.dumps(key)}: "
    start = text.find(name)
    if start < 0:
        return None
    # one line is parsed: all of some 200 would take longer than the import of a config.json
    line = text[start + len(name) : text.index("\n", start + 1)]
    return json.loads(line.rstrip(","))
