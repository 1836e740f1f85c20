"""The error of a command that needs torch where torch is missing: one line, no traceback."""

from __future__ import annotations

from archcli.errors import ArchError, install

PACKAGES = ("torch", "fvcore")
SIZE = (
    " (on Linux about 5 GB of CUDA libraries, unless the CPU wheel is installed first: "
    "pip install torch --index-url https://download.pytorch.org/whl/cpu)"
)


def missing_package(missing: ModuleNotFoundError) -> Exception:
    """An ArchError where torch or fvcore is missing; other import errors are unchanged."""
    name = (missing.name or "").split(".")[0]
    if name not in PACKAGES:
        return missing
    return ArchError(f"this needs {name}, which is not installed", install(*PACKAGES, note=SIZE))
