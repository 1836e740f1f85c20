"""Speeds of engines: constants of whole runs by family of devices, one YAML file each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from archcli.errors import ArchError
from archcli.load.devices.engines import folder
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import decode, read_start, text_of

Speeds = Mapping[str, Mapping[str, Any]]
"""Constants by family of devices, such as gpu."""
SPEEDS = "speeds"


@cache
def load_speeds(engine: str) -> Speeds:
    """The constants of an engine's runs. Raises ArchError for a file that cannot be read."""
    path = folder() / SPEEDS / f"{engine}.yaml"
    document = parse(text_of(decode(read_start(path, path.name), path.name), path.name))
    if document.problems or document.root is None:
        raise ArchError(document.problems)
    speeds: Speeds = plain(document.root)["speeds"]
    return speeds
