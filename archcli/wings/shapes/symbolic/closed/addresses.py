"""Addresses: where the JSON of a command has a number, and which closed form a drawing asks for."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

from archcli.wings.shapes.symbolic import required

CACHE_DTYPES = ("bf16", "fp8", "fp32", "q8_0", "q4_0")
"""The dtypes of a cache that have a closed form."""
DECODE = "decode"
"""In the place of a command: FLOPs of the token behind a context, as `flops --phase decode` counts them."""


class Address(NamedTuple):
    """Where the JSON of a command has a number: the path of a row, empty for a total, and keys by dots."""

    command: str
    path: str
    key: str


Forms: TypeAlias = dict[Address, Any]
Entry: TypeAlias = tuple[Address, Any]


class RowPaths:
    """The paths of the rows that have forms, by command and by each module above them."""

    def __init__(self, forms: Forms) -> None:
        self._below: dict[tuple[str, str], dict[str, None]] = {}
        self._rows = {(at.command, at.path) for at in forms}
        for command, path in dict.fromkeys((at.command, at.path) for at in forms):
            module = path
            while module:
                module = module.rpartition(".")[0]
                self._below.setdefault((command, module), {})[path] = None

    def of(self, command: str, path: str) -> list[str]:
        """The path itself where a row has it, else those of the rows below it."""
        return [path] if (command, path) in self._rows else [*self._below.get((command, path), ())]


def form_at(forms: Forms, address: Address, rows: RowPaths | None = None) -> Any:
    """The closed form of a number that is drawn; None where it has none.

    Paths and keys joined by + are added up, keys joined by * multiplied; the path of a module is the sum over
    the rows below it. `rows` are those of the forms, for many addresses.
    """
    sympy, rows = required("sympy"), rows or RowPaths(forms)
    terms = []
    for path in address.path.split("+"):
        for row_path in rows.of(address.command, path):
            for key in address.key.split("+"):
                factors = [forms.get(Address(address.command, row_path, it)) for it in key.split("*")]
                if None in factors:
                    return None
                terms.append(sympy.Mul(*factors))
    return sympy.Add(*terms) if terms else None
