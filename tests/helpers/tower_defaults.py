"""defaults.json of the towers: what the classes of transformers default to, of the keys that readers read.

Its lines are of a wrapper's model_type and a key of its file. `class` has the defaults of the part's class,
`missing` what the wrapper's class fills in beside them where a file lacks the key.
"""

import dataclasses
import json
from contextlib import suppress

import transformers

from archcli.errors import ArchError
from archcli.load.huggingface import family
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.importer import import_config
from archcli.load.huggingface.registry import families, family_of
from archcli.load.huggingface.wrappers.table import WRAPPERS
from archcli.load.huggingface.wrappers.text import HOLDING
from archcli.wings.media.huggingface.towers.source import NOTHING, PLAIN, TOWER_DEFAULTS, TowerSource

HELD = {kind: held for kind, (_, held, _) in HOLDING.items()}
TOWERS = [
    *((kind, row) for kind, wrapper in WRAPPERS.items() for row in wrapper.towers),
    *((HELD.get(kind, kind), row) for kind in families() for row in family_of(kind).towers if row.reader),
]
"""(model_type of its file, row) of each tower."""
PARTS = [(kind, key) for kind, row in TOWERS for key in (row.key, *row.joins)]
FOLLOWS = {"text_hidden_size", "num_patches", "video_patch_dim", "video_temporal_patch_size"}
"""Keys that a wrapper's class works out of others."""
MISSING = object()


def known_defaults(config):
    """The defaults of a class; what rope_parameters hold counts as keys of their own, as in older files."""
    written = config.to_dict()
    rope = written.get("rope_parameters") or {}
    known = {**{key: value for key, value in rope.items() if not isinstance(value, dict)}, **written}
    # to_dict leaves out a class's second word for a key, and of some classes whether the head is tied
    attributes = (*config.attribute_map, "tie_word_embeddings")
    words = {word: getattr(config, word, MISSING) for word in attributes}
    return {key: value for key, value in {**words, **known}.items() if value is not MISSING}


def derived(config):
    """Keys declared None whose default follows from others, such as head_dim; a list does not."""
    unset = {field.name for field in dataclasses.fields(config) if field.default is None}
    return {name for name in unset if not isinstance(getattr(config, name, None), list | tuple)}


def part_of(kind, key):
    """(the part as the wrapper's class makes it, or None; the part's class by itself, or None)."""
    if kind not in transformers.CONFIG_MAPPING:
        return None, None
    cls = transformers.CONFIG_MAPPING[kind]
    sub = cls.sub_configs.get(key)
    whole = None if sub is None else getattr(cls(), key)
    if whole is not None:
        return whole, type(whole)()
    return None, None if sub in (None, transformers.AutoConfig) else sub()


def line(kind, key, stored, monkeypatch):
    """The line of a part: a stored one keeps its keys, and is kept where transformers lacks the class."""
    whole, alone = part_of(kind, key)
    if alone is None:
        return stored
    known = plain(known_defaults(alone))
    if stored is None:
        free = {name: value for name, value in known.items() if name not in derived(alone)}
        entries = dict.fromkeys(keys_read(kind, key, free, monkeypatch), MISSING)
    else:
        entries = stored.get("class", {})
    # null in a line is what follows from other keys
    of_class = {
        name: known[name] if value is not None else None for name, value in entries.items() if name in known
    }
    found = {"class": of_class} if of_class else {}
    filled = {} if whole is None else filled_in(whole, alone)
    return {**found, "missing": filled} if filled else found


def filled_in(whole, alone):
    """What a wrapper's class states of a part that a file lacks."""
    usual, stated = plain(known_defaults(alone)), plain(whole.to_dict())
    filled = {
        name: value
        for name, value in stated.items()
        if usual.get(name, MISSING) != value and name not in (*PLAIN, *FOLLOWS)
    }
    return {"model_type": whole.model_type, **filled} if filled else {}


def keys_read(kind, key, known, monkeypatch):
    """The keys that a reader reads of a part without any; none of an encoder that is a family by itself."""
    parts = []

    def part(source, name, unstated=NOTHING):
        config = source.whole.inner(name, known if name == key else source.defaults(name))
        parts.append((name, config))
        return config

    with monkeypatch.context() as patched:
        patched.setattr(Config, "ignore", lambda *_: None)  # which marks keys as read that are not
        patched.setattr(TowerSource, "part", part)
        patched.setattr(TowerSource, "encoder", lambda *_: (_ for _ in ()).throw(ArchError("no part")))
        whole = plain(transformers.CONFIG_MAPPING[kind]().to_dict())
        with suppress(ArchError):  # T5Gemma 2's encoder is no file by itself
            import_config({**whole, key: {}, "model_type": kind})
    return sorted({name for of, config in parts if of == key for name in config.read & known.keys()})


def plain(values):
    """Values as JSON holds them."""
    return json.loads(json.dumps(values, default=str))


def stored():
    """The lines as they are."""
    return json.loads(TOWER_DEFAULTS.read_text(encoding="utf-8"))


def write(entries):
    """Write all lines."""
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
    TOWER_DEFAULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    family._text.cache_clear()
