"""The JSON Schema of models against the loader: what it takes, refuses and explains."""

import re

import pytest

from archcli.errors import ArchError
from archcli.load.presets import preset_text, presets
from archcli.load.source import load_text
from archcli.load.spec.schema import json_schema, rows
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import text_of
from archcli.wings.shapes.symbolic.explain.question import MEANINGS
from table import every_row, sampled_rows

SCHEMA = json_schema()


def fits(value, schema):
    """Whether a value is valid, for the part of JSON Schema that is used here."""
    if "$ref" in schema:
        return fits(value, SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[1]])
    if "if" in schema:
        whole = {key: item for key, item in schema.items() if key not in ("if", "then", "else")}
        return fits(value, schema["then"] if fits(value, schema["if"]) else schema["else"]) and fits(
            value, whole
        )
    if "anyOf" in schema:
        return any(fits(value, one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return value in schema.get("enum", [schema.get("const")])
    return not schema or TYPES[schema["type"]](value, schema)


def is_object(value, schema):
    if not isinstance(value, dict) or not set(schema.get("required", ())) <= set(value):
        return False
    named, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    return all(
        fits(item, named[key]) if key in named else rest is True or (rest is not False and fits(item, rest))
        for key, item in value.items()
    )


def is_number(value, schema):
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return (
        real
        and value > schema.get("exclusiveMinimum", float("-inf"))
        and value >= schema.get("minimum", float("-inf"))
    )


TYPES = {
    "object": is_object,
    "array": lambda value, schema: (
        isinstance(value, list) and all(fits(item, schema["items"]) for item in value)
    ),
    "string": lambda value, _: isinstance(value, str),
    "boolean": lambda value, _: isinstance(value, bool),
    "null": lambda value, _: value is None,
    "integer": lambda value, schema: isinstance(value, int) and is_number(value, schema),
    "number": is_number,
}


def read(text):
    return plain(parse(text_of(text, "test.yaml")).root)


GOOD = """
vocab_size: 10
d_model: 8
norm: rmsnorm
layer: {kind: pre_norm, attention: {kind: mha, n_heads: 2}, ffn: {kind: glu, d_ff: 4}}
groups: [{n_layers: 2}]
"""

ENCODER = (
    GOOD.replace("n_heads: 2", "n_heads: 2, causal: false")
    + "kind: encoder\npooler: true\nhead: {norm: layernorm}\n"
)
HALVES = """
kind: encoder_decoder
vocab_size: 10
d_model: 8
norm: rmsnorm
encoder:
  front_end: {d_model: 8}
  groups:
    - n_layers: 2
      layer: {kind: pre_norm, attention: {kind: mha, n_heads: 2, causal: false}, ffn: {kind: glu, d_ff: 4}}
decoder:
  score_bias: buckets
  groups:
    - n_layers: 2
      layer:
        kind: post_norm
        attention: {kind: mha, n_heads: 2}
        cross_attention: {kind: cross, n_heads: 2}
        ffn: {kind: glu, d_ff: 4}
"""


@sampled_rows("name", presets(), 4)
def test_every_preset_fits(name):
    assert fits(read(preset_text(name)), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [GOOD, GOOD + "kind: decoder\n", ENCODER, HALVES],
    ids=["usual", "decoder", "encoder", "encoder_decoder"],
)
def test_what_the_loader_takes_fits(text):
    load_text(text, "good.yaml")
    assert fits(read(text), SCHEMA)


@every_row(
    ("text", "right", "wrong"),
    [
        (GOOD, "vocab_size: 10", "vocab_size: 10\npooler: true"),
        (GOOD, "vocab_size: 10", "vocab_size: 10\nkind: mamba"),
        (GOOD, "vocab_size: 10", "vocab_size: 10\nkind: encoder_decoder"),
        (ENCODER, "pooler: true", "pooler: 1"),
        (ENCODER, "kind: encoder\n", ""),
        (HALVES, "kind: encoder_decoder\n", ""),
        (HALVES, "decoder:\n", "decoders:\n"),
        (HALVES, "front_end: {d_model: 8}", "vocab_size: {d_model: 8}"),
        (HALVES, "score_bias: buckets", "score_bias: bucket"),
        (HALVES, "vocab_size: 10", "vocab_size: 10\nlayer: {kind: pre_norm}"),
    ],
)
def test_each_kind_of_model_has_its_own_keys(text, right, wrong):
    mistaken = text.replace(right, wrong)
    assert mistaken != text
    with pytest.raises(ArchError):
        load_text(mistaken, "wrong.yaml")
    assert not fits(read(mistaken), SCHEMA)


@every_row(
    ("right", "wrong"),
    [
        ("d_model: 8", "d_modl: 8"),
        ("d_model: 8", "d_model: 0"),
        ("d_model: 8", "d_model: '8'"),
        ("vocab_size: 10", ""),
        ("norm: rmsnorm", "norm: rms"),
        ("kind: mha", "kind: mhaa"),
        ("n_heads: 2", "n_head: 2"),
        ("n_heads: 2", "n_heads: 2, window: true"),
        ("kind: glu", "kind: glu, activation: swiglu"),
        ("n_layers: 2", "pattern: [{}]"),
        ("groups: [", "groups: [3, "),
    ],
)
def test_what_the_loader_refuses_does_not_fit(right, wrong):
    text = GOOD.replace(right, wrong)
    assert text != GOOD
    assert not fits(read(text), SCHEMA)


def test_every_reference_is_defined():
    used = set(re.findall(r"'\$ref': '#/\$defs/(\w+)'", str(SCHEMA)))
    assert used <= set(SCHEMA["$defs"])
    assert {"attention", "norm", "position", "ffn", "block", "activation", "rope_scaling"} <= used


@pytest.mark.long
def test_every_key_is_explained():
    silent = {(row["class"], row["key"]) for row in rows() if not row["meaning"]}
    assert silent == set()
    for definition in [SCHEMA, *SCHEMA["$defs"].values()]:
        assert all(key.get("description") for key in definition.get("properties", {}).values())


@pytest.mark.long
def test_every_size_has_a_short_sentence_of_its_own():
    """What legends show beside a number: no other key's sentence, no condition without a meaning."""
    wrong = []
    for row in rows():
        text = row["meaning"]
        others = {word for word in re.findall(r"`(\w+)`", text) if word != row["key"]}
        if "whole number above 0" in row["takes"] and row["key"] not in MEANINGS:
            bare = re.match(r"`\w+` left out", text)
            if others or bare or len(text) > 110 or not text.endswith("."):
                wrong.append((row["class"], row["key"], text))
    assert wrong == []


@pytest.mark.long
def test_heads_of_a_recurrence_are_no_heads_of_queries():
    told = {row["kind"]: row["meaning"] for row in rows() if row["key"] == "n_heads" and row["kind"]}
    assert told["gqa"] == "Heads of queries."
    assert told["mamba2"] == told["mlstm"] == told["kda"] == "Heads of the recurrence, each with a state."
