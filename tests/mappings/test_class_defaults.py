"""class_defaults.json says what the classes of transformers default to, of the keys that archcli reads."""

import json
from dataclasses import replace

import pytest
import transformers

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.family import CLASS_DEFAULTS, class_defaults
from archcli.load.huggingface.registry import families, family_of

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

RENEWAL = "pytest -n0 --renew tests/mappings/test_class_defaults.py"
KINDS = [kind for kind in families() if kind in transformers.CONFIG_MAPPING]
MISSING = object()


def defaults(kind):
    """The defaults of a class; what rope_parameters hold counts as keys of their own, as in older files."""
    config = transformers.CONFIG_MAPPING[kind]()
    written = config.to_dict()
    rope = written.get("rope_parameters") or {}
    known = {**{key: value for key, value in rope.items() if not isinstance(value, dict)}, **written}
    # to_dict leaves out a class's second word for a key, and of some classes whether the head is tied
    attributes = (*config.attribute_map, "tie_word_embeddings")
    words = {word: getattr(config, word, MISSING) for word in attributes}
    return {key: value for key, value in {**words, **known}.items() if value is not MISSING}


def keys_read(kind, known):
    """The keys of a class that its family reads of a file without any."""
    family, config = family_of(kind), Config({"model_type": kind})
    # replace, which marks no key as read as with_defaults does
    family.mapping(replace(config, defaults={**known, **family.defaults}, aliases=family.aliases))
    return sorted(config.read & {key for key, value in known.items() if value is not None})


def line(kind):
    """The line of a class: its keys stay, one that has none gets those that its family reads."""
    known = defaults(kind)
    keys = [*class_defaults(kind)] or keys_read(kind, known)
    return {key: known[key] for key in keys if key in known}


def test_the_defaults_are_those_of_the_classes(renew):
    """A default that differs from transformers' is a family's own, stated beside it."""
    made = {kind: line(kind) for kind in sorted(KINDS, key=str.lower)}
    if renew:
        entries = {"transformers": transformers.__version__, **made}
        lines = ",\n".join(f"{json.dumps(kind)}: {json.dumps(entry)}" for kind, entry in entries.items())
        CLASS_DEFAULTS.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    stored = json.loads(CLASS_DEFAULTS.read_text(encoding="utf-8"))
    version = stored.pop("transformers")  # which may be another: what counts is whether a default changed
    changed = {kind: made.get(kind) for kind in {*made, *stored} if made.get(kind) != stored.get(kind)}
    assert not changed, f"other in transformers {transformers.__version__} than in {version}: {RENEWAL}"


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_a_class_without_a_line_gets_the_keys_that_its_family_reads(kind):
    known = defaults(kind)
    found = keys_read(kind, known)
    assert {key: known[key] for key in found}.items() >= {
        key: value for key, value in class_defaults(kind).items() if key in found
    }.items()
    assert {"vocab_size"} <= set(found) <= known.keys()
    assert "eos_token_id" not in found


def test_a_type_of_no_class_has_no_defaults():
    assert class_defaults("nothing") == {}
    assert class_defaults('a"b') == {}
