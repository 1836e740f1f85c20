"""Symbolic: counting with sympy symbols or numpy arrays as sizes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from archcli.errors import ArchError, install


def required(package: str) -> Any:
    """Import sympy or numpy; ArchError that says how to add it where it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        what = f"this needs {package}, which is not installed"
        raise ArchError(what, install("sympy", "numpy")) from None
