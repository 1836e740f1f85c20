"""Ways to change one field of a spec, of which mutants are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from archcli.modules.spec.base import Spec

Alteration = Callable[[Any, str], Iterator[tuple[str, Spec]]]
"""From a spec and the name of a field: what is changed, and the spec so changed, once per mutant."""


def altered(spec: Spec, **fields: Any) -> Spec:
    """The spec with other values, unvalidated."""
    return spec.replace(**fields)


def times(factor: float) -> Alteration:
    """The number multiplied; None has nothing to multiply."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        value = getattr(spec, field)
        if isinstance(value, tuple):
            yield f"{field}*{factor}", altered(spec, **{field: tuple(item * factor for item in value)})
        elif value is not None:
            yield f"{field}*{factor}", altered(spec, **{field: type(value)(value * factor)})

    return changes


def plus(*steps: int) -> Alteration:
    """The whole number and each step added to it, as long as it stays above zero."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        for step in steps:
            if (getattr(spec, field) or 0) > max(0, -step):
                yield f"{field}{step:+}", altered(spec, **{field: getattr(spec, field) + step})

    return changes


def to(*values: Any) -> Alteration:
    """Each of the values, if it is another."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        for value in values:
            if getattr(spec, field) != value:
                yield f"{field}={getattr(value, 'kind', value)}", altered(spec, **{field: value})

    return changes


def filled(value: Any) -> Alteration:
    """None becomes the value."""
    return lambda spec, field: to(value)(spec, field) if getattr(spec, field) is None else iter(())


def off(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """True becomes False; the other way round new weights would start neutral and change nothing."""
    if getattr(spec, field):
        yield f"no {field}", altered(spec, **{field: type(getattr(spec, field))()})


def dropped(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """What is there is left out."""
    if getattr(spec, field) is not None:
        yield f"no {field}", altered(spec, **{field: None})


def both(*alterations: Alteration) -> Alteration:
    """All mutants of several alterations."""

    def changes(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
        for alteration in alterations:
            yield from alteration(spec, field)

    return changes


def kinds(*classes: type[Spec], **fixed: Any) -> Alteration:
    """The same fields in another class."""

    def changes(spec: Spec, _: str) -> Iterator[tuple[str, Spec]]:
        for cls in classes:
            known = {
                field: getattr(spec, field)
                for field in cls.fields
                if field != "kind" and field in spec.fields
            }
            yield cls.__name__, cls.unchecked(**{**known, **fixed})

    return changes


def nothing(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """No mutant: the field is structure, or another field's mutants change it too."""
    yield from ()


def backwards(spec: Spec, field: str) -> Iterator[tuple[str, Spec]]:
    """The values in the other order."""
    yield f"{field} backwards", altered(spec, **{field: getattr(spec, field)[::-1]})


def table_offset(spec: Any, field: str) -> Iterator[tuple[str, Spec]]:
    """The same table, read from another row on."""
    if spec.offset:
        yield "offset=0", altered(spec, offset=0, max_seq_len=spec.max_seq_len + spec.offset)


SINUSOID = {
    "base": times(2),
    "pairing": to("half", "interleaved"),
    "first": to("sine", "cosine"),
    "offset": to(0, 3),
}
"""A sinusoid's fields."""

TEMPERATURE = {
    "scale": times(2),
    "floor_scale": times(2),
    "first": to(0, 1),
    "grows": to("log", "power", "log_above"),
}
"""A query temperature's fields."""

LOGITS = {
    "bias": off,
    "stored_bias": off,
    "scale": times(1.1),
    "softcap": both(times(2), dropped, filled(3.0)),
}
"""A head's fields."""
