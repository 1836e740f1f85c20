"""class_defaults.json says what the classes of transformers default to, of the keys that archcli reads."""

import dataclasses
import json
from dataclasses import replace

import pytest
import transformers

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.family import CLASS_DEFAULTS, class_defaults
from archcli.load.huggingface.wrappers.texts import TEXTS
from listed import all_families
from tower_defaults import known_defaults

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

RENEWAL = "pytest -n0 --renew tests/mappings/test_class_defaults.py"
FAMILIES = {kind: family for kind, (*_, family) in all_families().items()}
ENCODERS = ["parakeet_encoder", "pixtral"]
"""Towers that several wrappers have, and that are no family by themselves."""
KINDS = [kind for kind in (*FAMILIES, *TEXTS, *ENCODERS) if kind in transformers.CONFIG_MAPPING]
USUAL_THETA = 10000.0


def defaults(kind):
    """The defaults of a class."""
    return known_defaults(transformers.CONFIG_MAPPING[kind]())


def without_own_default(kind):
    """Keys whose default follows from others, such as head_dim, which is declared None; second words."""
    cls = transformers.CONFIG_MAPPING[kind]
    derived = {field.name for field in dataclasses.fields(cls) if field.default is None}
    return {*derived, *cls.attribute_map, "model_type"} - {"tie_word_embeddings"}


def keys_read(kind, known, monkeypatch):
    """The keys with a default of their own that a family reads of a file without any."""
    family, config = FAMILIES[kind], Config({"model_type": kind})
    with monkeypatch.context() as patched:
        patched.setattr(Config, "ignore", lambda *_: None)  # which marks keys as read that are not
        # replace marks none either, as with_defaults does
        family.mapping(replace(config, defaults={**known, **family.defaults}, aliases=family.aliases))
    usual = {"rope_theta"} if known.get("rope_theta") == USUAL_THETA else set()
    return sorted(config.read & known.keys() - without_own_default(kind) - usual)


def line(kind, monkeypatch):
    """The line of a class: its keys stay, one that has none gets those that its family reads."""
    known = defaults(kind)
    keys = [*class_defaults(kind)] or keys_read(kind, known, monkeypatch)
    return {key: known[key] for key in keys if key in known}


@pytest.mark.long
def test_the_defaults_are_those_of_the_classes(renew, monkeypatch):
    """A default that differs from transformers' is a family's own, stated beside it."""
    made = {kind: line(kind, monkeypatch) for kind in sorted(KINDS, key=str.lower)}
    if renew:
        entries = {"transformers": transformers.__version__, **made}
        lines = ",\n".join(f"{json.dumps(kind)}: {json.dumps(entry)}" for kind, entry in entries.items())
        CLASS_DEFAULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    stored = json.loads(CLASS_DEFAULTS.read_text(encoding="utf-8"))
    version = stored.pop("transformers")  # which may be another: what counts is whether a default changed
    changed = {kind: made.get(kind) for kind in {*made, *stored} if made.get(kind) != stored.get(kind)}
    assert not changed, f"other in transformers {transformers.__version__} than in {version}: {RENEWAL}"


@pytest.mark.parametrize("kind", ["llama", "arcee", "gpt2", "bert", "mixtral", "opt", "olmo2"])
def test_a_class_without_a_line_gets_the_keys_that_its_family_reads(kind, monkeypatch):
    found = keys_read(kind, defaults(kind), monkeypatch)
    assert set(class_defaults(kind)) == set(found)


def test_a_type_of_no_class_has_no_defaults():
    assert class_defaults("nothing") == {}
    assert class_defaults('a"b') == {}
