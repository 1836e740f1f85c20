"""defaults.json of the towers says what the classes of transformers default to, of the keys that are read."""

import pytest
import transformers

import tower_defaults
from archcli.load.huggingface.importer import import_config
from archcli.load.yaml.nodes import plain

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend

RENEWAL = 'pytest -n0 -m "" --renew tests/mappings/test_tower_defaults.py'
BY_HAND = {"internvl_chat vision_config"}
"""Parts whose class their repositories alone hold."""


@pytest.mark.long
def test_the_defaults_of_towers_are_those_of_the_classes(renew, monkeypatch):
    stored = tower_defaults.stored()
    version = stored.pop("transformers")  # which may be another: what counts is whether a default changed
    made = {name: stored[name] for name in BY_HAND}
    for kind, key in tower_defaults.PARTS:
        line = tower_defaults.line(kind, key, stored.get(f"{kind} {key}"), monkeypatch)
        if line:
            made[f"{kind} {key}"] = line
    if renew:
        tower_defaults.write({"transformers": transformers.__version__, **dict(sorted(made.items()))})
        stored = made
    changed = {name: made.get(name) for name in {*made, *stored} if made.get(name) != stored.get(name)}
    assert not changed, f"other in transformers {transformers.__version__} than in {version}: {RENEWAL}"


@pytest.mark.long
@pytest.mark.parametrize("part", ["git vision_config", "ovis2 vision_config", "blip-2 qformer_config"])
def test_a_part_without_a_line_gets_the_keys_that_its_reader_reads(part, monkeypatch):
    kind, _, key = part.partition(" ")
    assert tower_defaults.line(kind, key, None, monkeypatch) == tower_defaults.stored()[part]


PARTS = {
    # LlavaConfig(vision_config=…).vision_config and its like: hidden_size, patch_size
    "llava": {"without": (1024, 14), "empty": (768, 32)},
    "llava_next": {"without": (1024, 14), "empty": (768, 32)},
    "llava_onevision": {"without": (1152, 14), "empty": (768, 16)},
    "paligemma": {"without": (1152, 14), "empty": (768, 16)},
    "cohere2_vision": {"without": (1152, 16), "empty": (768, 16)},
    "mistral3": {"without": (1024, 14), "empty": (1024, 16)},
    "lighton_ocr": {"without": (1024, 14), "empty": (1024, 16)},
}
FILES = {"without": {}, "null": {"vision_config": None}, "empty": {"vision_config": {}}}
TEXT = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("kind", PARTS)
def test_a_part_that_a_file_lacks_is_what_the_wrapper_makes_and_an_empty_one_is_its_class(kind, file):
    tree = plain(import_config({"model_type": kind, "text_config": TEXT, **FILES[file]}).tree)
    encoder = tree["towers"][0]["model"]
    width, patch = PARTS[kind]["without" if file == "null" else file]
    assert (encoder["d_model"], encoder["front_end"]["patch_size"]) == (width, [patch, patch])


@pytest.mark.long
@pytest.mark.parametrize("file", ["without", "empty"])
@pytest.mark.parametrize("kind", PARTS)
def test_transformers_says_so(kind, file):
    part = transformers.CONFIG_MAPPING[kind](**FILES[file]).vision_config
    assert (part.hidden_size, part.patch_size) == PARTS[kind][file]
