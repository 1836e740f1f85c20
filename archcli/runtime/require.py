"""What a command that needs torch says where it is missing: one line, no traceback."""

from __future__ import annotations

from archcli.errors import ArchError

EXTRA = ("torch", "fvcore")


def missing_extra(missing: ModuleNotFoundError) -> Exception:
    """The user's error for a package of the `torch` extra that is not installed; any other missing module is a fault of ours and stays."""
    name = (missing.name or "").split(".")[0]
    if name not in EXTRA:
        return missing
    return ArchError(f"this needs {name}, which is not installed", "pip install 'archcli[torch]' adds it")
