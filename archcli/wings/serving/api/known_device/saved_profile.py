"""A profile that `archcli profile --json` wrote, read back and checked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.wings.serving.devices.saved import read_result

Document = Mapping[str, Any]


def read_profile(path: Path) -> Document:
    """The profile of one model or of several. Raises ArchError for any other file."""
    from archcli.wings.serving.recorded.schema import is_own

    document = read_any_profile(path)
    if is_own(document):
        what = f"a profile of {document['model']['name']}, and not of an architecture"
        raise ArchError(Problem(what, "archcli profile MODEL --json writes one", path=str(path)))
    return document


def read_any_profile(path: Path) -> Document:
    """The profile of a model, or of a program or module of the user's. Raises ArchError for another file."""
    from archcli.wings.serving.recorded.schema import first_violation  # every key of a profile

    document = read_result(path, "profile")
    wrong = first_violation(document)
    if wrong is not None:
        hint = "archcli schema --of profile says what archcli writes"
        what = f"no profile as archcli writes it: {wrong.place}: {wrong.reason}"
        raise ArchError(Problem(what, hint, path=str(path)))
    return document
