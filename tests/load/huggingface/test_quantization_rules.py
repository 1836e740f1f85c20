"""Which modules a quantization_config leaves out: its patterns, and the rules that give matrices formats."""

import json
import random
import time

import pytest

from archcli.load.huggingface.quantization.rules import Decision, rules
from archcli.load.huggingface.quantization.scheme import AS_IT_IS
from archcli.load.huggingface.weights.bounded import BoundedRegex
from archcli.load.huggingface.weights.patterns import Patterns
from archcli.load.source import load_text
from archcli.modules import Quantization, Rule
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.trace import outline
from archcli.modules.stored.quantization import Packing, quantizable
from stored_layouts import BY_GROUP, LLAMA, compressed
from table import every_row


def loaded(config):
    return load_text(json.dumps(config), "f")


NAME = "model.layers.12.mlp.gate_proj"


@every_row(
    ("pattern", "matches"),
    [
        ("gate_proj", True),
        ("gate", False),
        ("mlp.gate_proj", True),
        ("model.layers.12", True),
        ("model.layers.1", False),
        (NAME, True),
        ("re:.*gate_proj", True),
        ("re:gate_proj", False),
        ("re:.*mlp.gate$", False),
        ("re:.*mlp.(gate|up|gate_up|down)_proj.*", True),
        (r"re:model\.layers\.(1[0-9]|2)\..*", True),
        (r"re:.*layers\.\d+\.mlp\..*", True),
        (r"re:.*layers\.[0-3]\..*", False),
        ("re:visual.*", False),
        ("model.layers.*.mlp", True),
        ("model.layers.*.self_attn", False),
        ("language_model.model.layers.12.mlp", True),
        ("re:language_model.model.layers.12.*", True),
    ],
)
def test_a_pattern_means_what_its_writers_mean(pattern, matches):
    assert Patterns([pattern]).match(NAME) is matches


def test_a_pattern_of_gptqmodel_may_hold_a_colon():
    def of(pattern):
        settings = {"quant_method": "gptq", "bits": 4, "group_size": 8, "dynamic": {pattern: {}}}
        return loaded({**LLAMA, "quantization_config": settings})

    left_out = of("-:.*(?:q|k)_proj")
    assert left_out.model.quantization == of("-:.*[qk]_proj").model.quantization
    assert left_out.model.quantization != of("-:.*none").model.quantization
    assert not any("understood" in note for note in left_out.notes)


def test_globs_match_a_whole_name():
    assert Patterns(["model.layers.1*"], globs=True).match(NAME)
    assert not Patterns(["*.gate"], globs=True).match(NAME)


SLOW = ["re:(a+)+$", "re:" + "(a|aa)*" * 30 + "$", r"re:(\w+\s?)*z", "re:.*.*.*.*.*.*.*.*z"]


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_python_would_try_for_ever_is_answered(pattern):
    start = time.process_time()
    assert not Patterns([pattern]).match("a" * 80 + "b")
    assert Patterns([pattern]).match("a" * 80 + "z" * ("z" in pattern))
    assert time.process_time() - start < 1


UNREAD = ["re:[", r"re:(a)\1", "re:(?i)a", "re:" + "(" * 8 + ")" * 8, "x" * 1000, 7, None]


@pytest.mark.parametrize("pattern", UNREAD, ids=str)
def test_what_is_no_pattern_is_not_read(pattern):
    patterns = Patterns([pattern])
    assert len(patterns.unread) == 1
    assert not patterns.match("a" * 80)
    notes = loaded(
        {**LLAMA, "quantization_config": compressed("pack-quantized", BY_GROUP, None, [pattern])}
    ).notes
    assert any("was not understood" in note for note in notes)


FLOODS = {
    "expressions": compressed("pack-quantized", BY_GROUP, None, [f"re:.*{i}$" for i in range(30_000)]),
    "settings": {"quant_method": "gptq", "bits": 4, "dynamic": {f"-:.*{i}$": {} for i in range(30_000)}},
}


@pytest.mark.long
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_patterns_is_answered_in_time(name):
    start = time.process_time()
    notes = loaded({**LLAMA, "quantization_config": FLOODS[name]}).notes
    assert time.process_time() - start < 3
    assert any("was not understood" in note or "is not known" in note for note in notes)


@pytest.mark.long
def test_a_long_list_of_patterns_that_match_nothing_is_answered_in_time():
    """As lists are that name each layer: most of it is known by letters that no name has."""
    deep = {**LLAMA, "num_hidden_layers": 80}
    listed = [rf"re:.*layers\.{i}\.mixer\..*" for i in range(500)]
    start = time.process_time()
    notes = loaded(
        {**deep, "quantization_config": compressed("pack-quantized", BY_GROUP, None, listed)}
    ).notes
    assert time.process_time() - start < 2
    assert any("and 497 more" in note for note in notes)


LETTERS = {
    r".*self_attn\.(q|k)_proj": "self_attn.",
    r"layers\.\d+\.mlp": "layers.",
    r"ab?cde+": "cd",
    r"a|b": "",
    r"[ab]{2}c": "c",
    r"^.*\.experts\.[0-3]\.w1$": ".experts.",
    r"(?!x)y.z": "y",
}


@every_row(("pattern", "letters"), LETTERS.items(), ids=LETTERS)
def test_letters_that_all_it_matches_has(pattern, letters):
    assert BoundedRegex(pattern).literal == letters


# rules


def test_a_rule_comes_after_those_that_name_more():
    """`lm_head` means the whole group, and q_proj what lies below it."""
    of_8 = Packing(8)
    decisions = [
        Decision("lm_head", "lm_head_transform", None, AS_IT_IS),
        Decision("lm_head", "lm_head", None, of_8),
        Decision("attention", "layers.*.attention.q_proj.adapter_B", range(2), AS_IT_IS),
        Decision("attention", "layers.*.attention.q_proj", range(2), of_8),
        Decision("ffn", "layers.*.ffn.up_proj", range(2), AS_IT_IS),
        Decision("ffn", "layers.*.ffn.down_proj", range(2), AS_IT_IS),
        Decision("embedding", "embedding.tokens", None, AS_IT_IS),
    ]
    assert rules(decisions) == {
        "bits": "dtype",
        "rules": [
            {"match": "lm_head", "bits": 8},
            {"match": "lm_head_transform", "bits": "dtype"},
            {"match": "layers.*.attention.q_proj", "bits": 8},
            {"match": "layers.*.attention.q_proj.adapter_B", "bits": "dtype"},
        ],
    }


def rows_of(model):
    return [row for row in outline(model) if quantizable(row)]


@pytest.mark.sample(7, whole=True)
@pytest.mark.parametrize("seed", range(20))
def test_the_rules_give_every_matrix_its_format(seed):
    """Random formats: for whole groups, for a path, or layer by layer."""
    model = loaded({**LLAMA, "model_type": "qwen2_moe", "mlp_only_layers": [0, 2]}).model
    formats = [AS_IT_IS, Packing(4, 128), Packing(4, 128, 16, 4, input_bits=32), Packing(8)]
    pick, layers, wanted = random.Random(seed), LayerIndex(model), {}  # noqa: S311 no secret hangs on it
    decisions = []
    usual = {row.group: pick.choice(formats) for row in rows_of(model)}
    for row in rows_of(model):
        path = row.path.replace(f"layers.{layers.span(row.path)[0]}.", "layers.*.")
        for n in layers.span(row.path):
            packing = usual[row.group] if pick.random() < seed / 20 else pick.choice(formats)
            wanted[path, n] = packing
            decisions.append(Decision(row.group, path, range(n, n + 1) if "*" in path else None, packing))
    made = rules(decisions)
    if made is None:
        assert set(wanted.values()) == {AS_IT_IS}
        return
    quantization = Quantization(**{**made, "rules": tuple(Rule(**rule) for rule in made.get("rules", ()))})
    assert not list(quantization.check_model(model, layers))
    for row in rows_of(model):
        path = row.path.replace(f"layers.{layers.span(row.path)[0]}.", "layers.*.")
        expected = sorted(str(own_bits(wanted[path, n])) for n in layers.span(row.path))
        found = [
            str(own_bits(packing)) for packing, n in quantization.packings(layers)(row) for _ in range(n)
        ]
        assert sorted(found) == expected


def own_bits(packing):
    return packing.bits_of((128, 256), 16)
