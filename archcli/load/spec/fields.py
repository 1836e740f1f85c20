"""The keys of a Spec class, and the kinds that each of its fields accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from archcli.modules.spec.base import Spec
from archcli.modules.spec.fields import Field
from archcli.modules.spec.kinds import IMPLIED, find, kind_of, kinds

USUAL_MODEL = "decoder"
"""The kind of a model that states none."""


NONE = "none"
"""The word for a module that is left out, as null is."""


def fields(cls: type[Spec]) -> Mapping[str, Field]:
    """The fields of a class by name, without `kind`; mappings and lists, such as of layers, come last."""
    keys = [(name, field) for name, field in cls.fields.items() if name != "kind"]
    return dict(sorted(keys, key=lambda item: (item[1].many, item[1].named)))


def choices(base: type[Spec]) -> Mapping[str, type[Spec]]:
    """All kinds that a field of this class may take, the default first.

    Imports them: for lists and messages.
    """
    known = kinds(base.family) if base.family else {}
    classes = {kind: cls for kind, cls in known.items() if issubclass(cls, base)}
    return {kind: classes[kind] for kind in sorted(classes, key=lambda kind: kind != base.default_kind)}


def chosen(base: type[Spec], kind: str) -> type[Spec] | None:
    """The class of this kind that a field annotated with `base` may take; None where there is none."""
    cls = find(base.family, kind)
    return cls if cls is not None and issubclass(cls, base) else None


def leaves_out(field: Field, value: Any) -> bool:
    """Whether a value leaves the module out: null, or `none` where no kind has that name."""
    return field.nullable and (value is None or (value == NONE and chosen(field.spec, NONE) is None))


def unstated(base: type[Spec], keys: Iterable[str] = ()) -> type[Spec] | None:
    """The class of a mapping without `kind` in a field of class `base`, by its keys.

    None where `kind` is required.
    """
    if not base.family or kind_of(base):
        return base
    kind = implied(base.family, keys) or base.default_kind
    return chosen(base, kind) if kind else None


def implied(family: str, keys: Iterable[str]) -> str:
    """The kind that one of the keys implies, as `IMPLIED` lists them; empty for none."""
    known = IMPLIED.get(family, {})
    return next((known[key] for key in keys if key in known), "")
