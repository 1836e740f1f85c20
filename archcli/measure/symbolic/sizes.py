"""The sizes of a model: its fields that hold whole numbers, by full path."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.errors import ArchError, Problem
from archcli.modules import Model, find
from archcli.modules.base import Size, Spec, ends_in
from archcli.modules.fields import Field
from archcli.modules.values import value_type
from archcli.wording import suggest

SIZE = value_type(Size).schema


def sizes(model: Model) -> Iterator[tuple[str, Spec, int | None]]:
    """(full path, its spec, value) of every field that is a size; None where it is left out."""
    for path, spec in find(model, Spec):
        for name, field in spec.fields.items():
            if any(schema == SIZE for schema in _schemas(field)):
                yield f"{path}.{name}" if path else name, spec, getattr(spec, name)


def _schemas(field: Field) -> Iterator[object]:
    if field.type:
        yield field.type.schema
        yield from field.type.schema.get("anyOf", ())


def has_size(model: Model, name: str) -> bool:
    """Whether a size has this name, or a path that ends so."""
    return any(ends_in(path, name.split(".")) for path, _, _ in sizes(model))


def fields_named(model: Model, name: str) -> list[str]:
    """Full paths of all sizes with this name or end of a path, whose values must agree.

    A full path means itself where they do not. Raises ArchError where there are none, or no single one.
    """
    fields = {path: value for path, _, value in sizes(model)}
    paths = [path for path in fields if ends_in(path, name.split("."))]
    if not paths:
        known = dict.fromkeys(path.rsplit(".", 1)[-1] for path in fields)
        raise ArchError(Problem("no size of this name", suggest(name, known), path=name))
    if len({fields[path] for path in paths}) == 1:
        return paths
    if name in fields:
        return [name]
    values = ", ".join(f"{path} {fields[path]}" for path in paths)
    hint = f"say which by its full path: {values}"
    raise ArchError(Problem("sizes of this name have different values", hint, path=name))
