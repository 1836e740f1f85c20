"""What `archcli profile --json` prints: every key with its meaning and unit. The reports are made of these records.

`json_schema` and `keys` show them, `misfit` says where a document is none. Nothing here counts or measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from archcli.measure.profile.schema.versus import Comparison
from archcli.measure.profile.schema.whole import Profile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DOCUMENTS: tuple[Any, ...] = (Profile, Comparison)
"""Of one model; of variants of it."""


class Misfit(NamedTuple):
    """Where a document is not as archcli writes it, and what is wrong there."""

    place: str
    what: str


def compares(document: Mapping[str, Any]) -> bool:
    """Whether it is of variants."""
    totals = document.get("totals")
    return isinstance(totals, Mapping) and "variants" in totals


def misfit(document: Mapping[str, Any]) -> Misfit | None:
    """The first place at which the document does not fit the schema; None where it does."""
    try:
        _adapter(Comparison if compares(document) else Profile).validate_python(document, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return Misfit(".".join(map(str, first["loc"])), first["msg"][:1].lower() + first["msg"][1:])
    return None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of both documents."""
    found = _adapter(Profile | Comparison).json_schema()
    return {"$schema": DIALECT, "title": "archcli profile", **_tidy(found)}


def keys() -> Iterator[dict[str, Any]]:
    """Every key of every record: what it takes, whether it is always there, what it means."""
    records = json_schema()["$defs"]
    for name, record in records.items():
        for key, value in record["properties"].items():
            taken, always = _taken(value), key in record.get("required", ())
            meaning = (
                value.get("description") or records[taken]["description"]
            )  # pydantic leaves out that of a record used once
            yield {"record": name, "key": key, "takes": taken, "always": always, "meaning": meaning}


@cache
def _adapter(of: Any) -> TypeAdapter[Any]:
    return TypeAdapter(of)


def _tidy(value: Any) -> Any:
    """Without the titles that pydantic makes of names."""
    if isinstance(value, dict):
        return {
            key: _tidy(item) for key, item in value.items() if not (key == "title" and isinstance(item, str))
        }
    return [_tidy(item) for item in value] if isinstance(value, list) else value


def _taken(value: Mapping[str, Any]) -> str:
    """What a key takes, in a few words."""
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "anyOf" in value:
        return " | ".join(_taken(each) for each in value["anyOf"])
    if "enum" in value or "const" in value:
        return " | ".join(map(str, value.get("enum", [value.get("const")])))
    if value["type"] == "array":
        return f"a list of {_taken(value['items'])}"
    if value["type"] == "object":
        return f"by name {_taken(value['additionalProperties'])}"
    return str(value["type"])
