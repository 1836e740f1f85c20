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


FILES = {
    # what LlavaOnevisionConfig(), PaliGemmaConfig() and Mistral3Config() make of it
    "llava_onevision": ("d_model", 1152),
    "paligemma": ("d_model", 1152),
    "mistral3": ("patch_size", [14, 14]),
}
TEXT = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_without_the_part_of_a_tower_has_what_the_wrapper_fills_in(kind):
    key, value = FILES[kind]
    tree = plain(import_config({"model_type": kind, "text_config": TEXT}).tree)
    encoder = tree["towers"][0]["model"]
    assert {**encoder["front_end"], **encoder}[key] == value
