"""The schema of what `archcli profile --json` prints: every key with its meaning and unit.

Reports are made of these records. `json_schema` and `keys` print them; `first_violation` says where a document does
not fit. Nothing here counts or measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from archcli.measure.profile.schema.profile import Profile
from archcli.measure.profile.schema.versus import ProfileComparison

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS: tuple[Any, ...] = (Profile, ProfileComparison)
"""The document of one model, and that of variants compared."""


class SchemaViolation(NamedTuple):
    """A place in a document that does not fit the schema, and the reason."""

    place: str
    reason: str


def is_comparison(document: Mapping[str, Any]) -> bool:
    """Whether a document compares variants (`--vs`)."""
    totals = document.get("totals")
    return isinstance(totals, Mapping) and "variants" in totals


def first_violation(document: Mapping[str, Any]) -> SchemaViolation | None:
    """The first place at which a document does not fit the schema; None where it fits."""
    try:
        _adapter(_record_of(document)).validate_python(document, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return SchemaViolation(".".join(map(str, first["loc"])), first["msg"][:1].lower() + first["msg"][1:])
    return None


def _record_of(document: Mapping[str, Any]) -> Any:
    return ProfileComparison if is_comparison(document) else Profile


def json_schema() -> dict[str, Any]:
    """The JSON Schema of both documents, in the 2020-12 dialect."""
    schema = _adapter(Profile | ProfileComparison).json_schema()
    return {"$schema": DIALECT, "title": "archcli profile", **_without_titles(schema)}


def keys() -> Iterator[dict[str, Any]]:
    """Every key of every record: the type of its value, whether it is always present, its meaning."""
    records = json_schema()["$defs"]
    for name, record in records.items():
        for key, value in record["properties"].items():
            type_name, always = _type_name(value), key in record.get("required", ())
            # pydantic leaves out the description of a key whose record is used once
            meaning = value.get("description") or records[type_name]["description"]
            yield {"record": name, "key": key, "takes": type_name, "always": always, "meaning": meaning}


@cache
def _adapter(record: Any) -> TypeAdapter[Any]:
    return TypeAdapter(record)


def _without_titles(value: Any) -> Any:
    """A schema without the titles that pydantic makes from names; a property called title stays."""
    if isinstance(value, list):
        return [_without_titles(item) for item in value]
    if not isinstance(value, dict):
        return value
    titled = isinstance(value.get("title"), str)
    return {key: _without_titles(item) for key, item in value.items() if not (titled and key == "title")}


def _type_name(value: Mapping[str, Any]) -> str:
    """The type of a key's value, in a few words."""
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "anyOf" in value:
        return " | ".join(_type_name(choice) for choice in value["anyOf"])
    if "enum" in value or "const" in value:
        return " | ".join(map(str, value.get("enum", [value.get("const")])))
    if value["type"] == "array":
        return f"a list of {_type_name(value['items'])}"
    if value["type"] == "object":
        return f"by name {_type_name(value['additionalProperties'])}"
    return str(value["type"])
