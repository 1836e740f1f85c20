"""The schema of what `archcli profile --json` prints: every key with its meaning and unit.

Reports are made of these records. `json_schema` and `keys` print them; `first_violation` says where a
document does not fit. Nothing here counts or measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import getdoc
from typing import Any, NamedTuple, get_args, is_typeddict

from archcli.modules.spec.values import Meaning, Refusal, record_keys, unwrapped, value_type
from archcli.wings.serving.recorded.schema.documents import Profile, ProfileComparison
from archcli.wings.serving.recorded.schema.own import ModuleProfile, ProgramProfile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAME = "urn:archcli:schema:profile"
DOCUMENTS: dict[str, Any] = {
    "variants": ProfileComparison,
    "by_phase": ProgramProfile,
    "passes": ModuleProfile,
    "": Profile,
}
"""The documents by a key that only their totals have; without any, that of one model."""


class SchemaViolation(NamedTuple):
    """A place in a document that does not fit the schema, and the reason."""

    place: str
    reason: str


def is_comparison(document: Mapping[str, Any]) -> bool:
    """Whether a document compares variants (`--vs`)."""
    return _form(document) is ProfileComparison


def is_own(document: Mapping[str, Any]) -> bool:
    """Whether a document is of a program or a module of the user's, and not of an architecture."""
    return _form(document) in {ProgramProfile, ModuleProfile}


def _form(document: Mapping[str, Any]) -> Any:
    totals = document.get("totals")
    keys = totals if isinstance(totals, Mapping) else {}
    return next(form for key, form in DOCUMENTS.items() if key in keys or not key)


def first_violation(document: Mapping[str, Any]) -> SchemaViolation | None:
    """The first place at which a document does not fit the schema; None where it fits."""
    try:
        value_type(_form(document)).convert(document)
    except Refusal as refusal:
        return SchemaViolation(refusal.path.removeprefix("."), refusal.reason())
    return None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of all documents, in the 2020-12 dialect."""
    records: dict[str, Any] = {}
    for document in DOCUMENTS.values():
        _collect(document, records)
    definitions = {name: _definition(records[name]) for name in sorted(records)}
    documents = [{"$ref": f"#/$defs/{document.__name__}"} for document in DOCUMENTS.values()]
    heading = {"$schema": DIALECT, "$id": NAME, "title": "archcli profile"}
    return {**heading, "$defs": definitions, "anyOf": documents}


def _collect(annotation: Any, records: dict[str, Any]) -> None:
    """Every record that an annotation holds, itself included, by name."""
    hint, _ = unwrapped(annotation)
    if is_typeddict(hint):
        records[hint.__name__] = hint
    for inner in [hint for hint, _ in record_keys(hint).values()] if is_typeddict(hint) else get_args(hint):
        _collect(inner, records)


def _definition(record: Any) -> dict[str, Any]:
    keys = record_keys(record)
    required = [key for key, (_, always) in keys.items() if always]
    definition = {
        "additionalProperties": False,
        # users read it: the docstring of a record is its description in the schema
        "description": getdoc(record),
        "properties": {key: _property(hint) for key, (hint, _) in keys.items()},
        "type": "object",
    }
    return definition | ({"required": required} if required else {})


def _property(hint: Any) -> dict[str, Any]:
    # an annotation holds bounds besides: the class tells which entry is the text
    meaning = next(entry.text for entry in unwrapped(hint)[1] if isinstance(entry, Meaning))
    return value_type(hint).schema | {"description": meaning}


def keys() -> Iterator[dict[str, Any]]:
    """Every key of every record: the type of its value, whether it is always present, its meaning."""
    for name, record in json_schema()["$defs"].items():
        for key, value in record["properties"].items():
            always, meaning = key in record.get("required", ()), value["description"]
            yield {
                "record": name,
                "key": key,
                "takes": _type_name(value),
                "always": always,
                "meaning": meaning,
            }


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
