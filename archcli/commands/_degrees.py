"""Degrees of parallelism by name, as functions take them: {"dp": 8, "zero": 3}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from archcli.errors import ArchError
from archcli.measure.memory.plan import Plan
from archcli.modules.arguments import accept
from archcli.modules.values import refused
from archcli.wording import quote, suggest


def degrees(value: Any) -> Mapping[str, Any]:
    """Degrees of parallelism by name; ArchError for a name that is none, and for a value it cannot have."""
    if not isinstance(value, Mapping):
        raise refused(value, "a mapping from names")
    names = Plan().inputs()
    unknown = [name for name in value if name not in names]
    if unknown:
        raise ArchError(f"unknown degree {quote(str(unknown[0]))}", suggest(str(unknown[0]), names))
    return {name: accept(name, degree) for name, degree in value.items()}
