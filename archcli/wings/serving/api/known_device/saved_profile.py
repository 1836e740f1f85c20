"""A profile that `archcli profile --json` wrote, read back and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, Problem
from archcli.load.yaml.text import read_start, read_stdin

Document = Mapping[str, Any]
MOST_BYTES = 64 << 20
VERSION = 1
"""The `schema_version` of JSON that this archcli reads."""


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


def read_result(path: Path, command: str) -> dict[str, Any]:
    """Read a command's saved JSON, from standard input where the path is `-`.

    Raises ArchError for another command, version or kind of file.
    """
    data = read_stdin(MOST_BYTES) if str(path) == "-" else read_start(path, str(path), MOST_BYTES)
    # both readers return one byte more than allowed, which tells a longer file from one that fits
    if len(data) > MOST_BYTES:
        raise ArchError(Problem(f"larger than {MOST_BYTES >> 20} MiB", "no result is", path=str(path)))
    try:
        document = json.loads(data)
    # json.loads raises RecursionError on deep nesting, which is no ValueError
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or "schema_version" not in document or "command" not in document:
        hint = f"archcli {command} … --json -o FILE writes one"
        raise ArchError(Problem("not a result of archcli", hint, path=str(path)))
    if document["schema_version"] != VERSION:
        what = f"of form {document['schema_version']!r}, and this archcli knows {VERSION}"
        raise ArchError(Problem(what, "use its own archcli", path=str(path)))
    if document["command"] != command:
        raise ArchError(Problem(f"a result of {document['command']!r}, not of {command}", "", path=str(path)))
    return document
