"""Copies of modules that are trained whole beside frozen ones: peft's modules_to_save."""

from __future__ import annotations

from dataclasses import replace

from archcli.graph import Op, Tensor
from archcli.ops import Gather, Linear, Lookup, Normalize

ENDING = ".saved"
"""Behind the name of an operation, that of its copy."""


def can_be_saved(op: Op) -> bool:
    """Whether an operation is a projection, a table or a norm, of which a copy can be trained."""
    return isinstance(op, Linear | Lookup | Normalize | Gather)


def copy_of(op: Op, xs: tuple[Tensor, ...]) -> tuple[Op, tuple[Tensor, ...]]:
    """The copy of an operation with weights of its own, and its inputs.

    A tied head, and the source's vectors by a shared table, read the table as their second input; their
    copies do not.
    """
    name = f"{op.name}{ENDING}"
    if isinstance(op, Gather):
        entries, width = xs[1].shape
        return Lookup(name, entries, width), xs[:1]
    if isinstance(op, Linear):
        return replace(op, name=name, borrowed=False), xs[:1]
    if isinstance(op, Lookup):
        return replace(op, name=name, frozen=False), xs
    return replace(op, name=name), xs  # type: ignore[type-var]
