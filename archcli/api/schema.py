"""yaml_schema: `archcli schema` in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from archcli.measure.report import Column, Report, Table
from archcli.plugins import part

YAML = (
    "A key without a default must be given, by the layer itself or by what it shares with others; "
    "`kind` picks the class."
)
PROFILE = (
    "A record has the keys named here and no others; one that is not always there is there where its "
    "meaning says."
)


def yaml_schema() -> dict[str, Any]:
    """The JSON Schema of the YAML, as `archcli schema` prints it.

    Example: `yaml_schema()["title"]` is archcli architecture.
    """
    from archcli.load.spec.schema import json_schema

    return json_schema()


def schema_of_yaml() -> tuple[dict[str, Any], Report]:
    """The JSON Schema of the YAML, and a table of its keys."""
    from archcli.load.spec.schema import json_schema, rows

    return json_schema(), _table(YAML, list(rows()), ("class", "kind", "key", "takes", "default", "meaning"))


def schema_of_profile() -> tuple[dict[str, Any], Report]:
    """The JSON Schema of a profile's JSON, and a table of its keys."""
    schema, keys = part("serving.schema_of_profile")(), [*part("serving.keys_of_profile")()]
    return schema, _table(PROFILE, keys, ("record", "key", "takes", "always", "meaning"))


def _table(convention: str, keys: list[dict[str, Any]], titles: Sequence[str]) -> Report:
    columns = [Column(title, title) for title in titles]
    return Report("schema", {}, {}, convention, {"keys": len(keys)}, keys, (Table("", columns, keys),))
