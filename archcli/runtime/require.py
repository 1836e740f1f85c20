"""The error of a command that needs torch where torch is missing: one line, no traceback."""

from __future__ import annotations

from archcli.errors import ArchError

EXTRA = ("torch", "fvcore")
HINT = (
    "pip install 'archcli[torch]' adds it; on Linux this brings about 5 GB of CUDA libraries, unless the CPU "
    "wheel is installed first: pip install torch --index-url https://download.pytorch.org/whl/cpu"
)


def missing_extra(missing: ModuleNotFoundError) -> Exception:
    """An ArchError for a missing package of the `torch` extra; other import errors are unchanged."""
    name = (missing.name or "").split(".")[0]
    if name not in EXTRA:
        return missing
    return ArchError(f"this needs {name}, which is not installed", HINT)
