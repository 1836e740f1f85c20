"""The schemas of the tools of `archcli mcp`: JSON Schema 2020-12, and what the records of options say."""

from dataclasses import MISSING, fields

import pytest
from jsonschema import Draft202012Validator

from archcli.api.asking.question import option_of
from archcli.modules.spec.values import hints, value_type
from archcli.wings.doors.commands.mcp.tools import TOOLS
from assistant import in_process

NAMES = [
    *(
        "params",
        "flops",
        "kvcache",
        "memory",
        "predict",
        "fit",
        "choose",
        "check",
        "compare",
        "explain",
        "sweep",
    ),
    "draw",
]
OWN = {"model", "models", "set", "rows", "svg"}
FILES = {"against", "calibrate", "files", "write_yaml", "profile", "plot", "prices"}
"""Options by which commands read or write files."""


@pytest.fixture(scope="module")
def listed():
    """The tools by name, as a client lists them."""

    async def ask(client):
        return (await client.list_tools()).tools

    return {tool.name: tool for tool in in_process(ask)}


def test_the_tools_are_listed_as_reading_only(listed):
    assert list(listed) == NAMES
    assert all(tool.annotations.read_only_hint for tool in listed.values())
    assert not any(tool.annotations.open_world_hint for tool in listed.values())
    assert all(tool.description.endswith(".") for tool in listed.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_one_of_2020_12_and_closed(listed, name):
    schema = listed[name].input_schema
    Draft202012Validator.check_schema(schema)
    # the dialect of a schema of MCP that states none
    assert "$schema" not in schema
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) <= set(schema["properties"])
    assert all(one["description"] for one in schema["properties"].values())


@pytest.mark.parametrize("name", NAMES)
def test_the_arguments_are_the_options_of_the_record(listed, name):
    record = TOOLS[name].record
    known = hints(record)
    options = {
        field.name: field
        for field in fields(record)
        if field.name in known
        and option_of(known[field.name]) is not None
        and not option_of(known[field.name]).rare
    }
    properties = listed[name].input_schema["properties"]
    assert set(properties) - OWN == set(options) - FILES
    for key in set(options) - FILES:
        check_argument(properties[key], options[key].default, known[key])
    required = {key for key, field in options.items() if field.default is MISSING}
    assert set(listed[name].input_schema["required"]) - OWN == required


def check_argument(schema, default, annotation):
    """Default, limits, words and help are those of the record."""
    assert schema["description"] == option_of(annotation).help
    if default in (MISSING, None, ()):
        assert "default" not in schema
    else:
        assert schema["default"] == default
        assert Draft202012Validator(schema).is_valid(default)
    theirs = value_type(annotation).schema
    limits = theirs | next((arm for arm in theirs.get("anyOf", []) if arm != {"type": "null"}), {})
    for key in ("enum", "const", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        assert schema.get(key) == limits.get(key)


def test_no_list_of_tools_is_longer_than_a_context_bears(listed):
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in listed.values()) < 37_000
