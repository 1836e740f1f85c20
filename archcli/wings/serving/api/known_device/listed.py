"""What the list of devices has of each, read from devices/index.json: no YAML is parsed for it.

`pytest -n0 --renew tests/load/devices/test_index.py` writes the index anew, after a change of a device.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

from archcli.load.presets import shipped
from archcli.load.yaml.text import read_start
from archcli.wings.serving.devices.datasheet import CERTAINTIES, Datasheet

INDEX = "index.json"
MOST_BYTES = 1 << 20
OF_LAPTOPS = re.compile(r".*-laptop.*|rx-\d{4}[ms].*|arc-a\d+m|(?!rtx-pro).*-max-q")
OF_RAM = "half of the RAM"
"""What the source says of the memory of a processor's graphics."""


class ListedDevice(NamedTuple):
    """A device of the list.

    figures: by their keys. estimates: those that are estimated. certainty, source: of its memory.
    """

    name: str
    vendor: str
    kind: str
    architecture: str
    link: str
    figures: Mapping[str, float]
    estimates: list[str]
    certainty: str
    source: str

    @property
    def is_sold_alone(self) -> bool:
        """Whether it is neither a laptop's nor a part of a processor with a share of its RAM."""
        return not OF_LAPTOPS.fullmatch(self.name) and OF_RAM not in self.source

    @classmethod
    def of(cls, sheet: Datasheet) -> ListedDevice:
        """What the list has of a datasheet."""
        estimates = [key for key, figure in sheet.figures.items() if figure.certainty == CERTAINTIES[-1]]
        figures = {key: figure.value for key, figure in sheet.figures.items()}
        _, certainty, source = sheet.figures["memory_bytes"]
        texts = (sheet.name, sheet.vendor, sheet.kind, sheet.architecture, sheet.link)
        return cls(*texts, figures, estimates, certainty, source)


@cache
def listed_devices() -> tuple[ListedDevice, ...]:
    """The devices that come with archcli, in alphabetical order."""
    data = read_start(shipped("devices") / INDEX, INDEX, MOST_BYTES)
    return tuple(ListedDevice(*values) for values in json.loads(data))


def index_of(sheets: Iterable[Datasheet]) -> str:
    """The text of the index: a device a line."""
    lines = [json.dumps(ListedDevice.of(sheet), ensure_ascii=False) for sheet in sheets]
    return "[\n" + ",\n".join(lines) + "\n]\n"
