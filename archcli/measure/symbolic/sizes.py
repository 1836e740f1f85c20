"""The sizes of a model: its fields that hold whole numbers, by full path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from archcli.errors import ArchError, Problem
from archcli.modules import Model, find
from archcli.modules.spec.base import Size, Spec, ends_in, full_paths
from archcli.modules.spec.fields import Field
from archcli.modules.spec.values import value_type
from archcli.wording import either, suggest

SIZE = value_type(Size).schema


def sizes(model: Model) -> Iterator[tuple[str, Spec, int | None]]:
    """(full path, its spec, value) of every field that is a size.

    The value is None where the field is left out, or holds a word: bits: dtype, group_size: row.
    """
    for path, spec in find(model, Spec):
        for name, field in spec.fields.items():
            if any(schema == SIZE for schema in _schemas(field)):
                value = getattr(spec, name)
                # symbols and arrays are sizes, too: a word alone is none
                yield f"{path}.{name}" if path else name, spec, None if isinstance(value, str) else value


def _schemas(field: Field) -> Iterator[object]:
    if field.type:
        yield field.type.schema
        yield from field.type.schema.get("anyOf", ())


def has_size(model: Model, name: str) -> bool:
    """Whether a size has this name, or a path that ends so."""
    return bool(_matching(model, name))


def fields_named(model: Model, name: str) -> list[str]:
    """Full paths of all sizes with this name or end of a path, as `--set` means it.

    Where their values differ it is the one at the top, with those that inherit it. Raises ArchError where
    there are none, or no single one.
    """
    matches = _matching(model, name)
    if not matches:
        hint = suggest_size(name, [path for path, _, _ in sizes(model)])
        raise ArchError(Problem("no size of this name", hint, path=name))
    values = {path: value for path, _, value in matches}
    if len(set(values.values())) == 1:
        return [*values]
    if name in values:
        key = name.rpartition(".")[2]
        heirs = {path for path, spec, _ in matches if spec.fields[key].inherits == name}
        return [
            path
            for path, value in values.items()
            if path == name or (path in heirs and value == values[name])
        ]
    listed = ", ".join(path if value is None else f"{path} {value}" for path, value in values.items())
    hint = f"say which by its full path: {listed}"
    raise ArchError(Problem("sizes of this name have different values", hint, path=name))


def suggest_size(name: str, paths: Iterable[str], names: Iterable[str] = ()) -> str:
    """A hint for a name of no size: full paths that it leaves steps out of, else names near to it."""
    paths = list(paths)
    if full := full_paths(paths, name.split(".")):
        return f"did you mean {either(full)}?"
    return suggest(name, dict.fromkeys((*names, *(path.rsplit(".", 1)[-1] for path in paths))))


def _matching(model: Model, name: str) -> list[tuple[str, Spec, int | None]]:
    """The sizes whose paths end in this name; none for a module of the model, such as norm or groups."""
    if name in model.fields and model.fields[name].type is None:
        return []
    return [entry for entry in sizes(model) if ends_in(entry[0], name.split("."))]
