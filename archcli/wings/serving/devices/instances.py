"""Instances of clouds by name: g6e.xlarge is an L40S with 32 GiB of RAM."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

from archcli.load.presets import shipped
from archcli.load.yaml.nodes import plain
from archcli.load.yaml.reader import parse
from archcli.load.yaml.text import text_of
from archcli.wings.serving.devices.datasheet import INSTANCES
from archcli.wings.serving.devices.names import split_count

LIKE = re.compile(
    r"[a-z]+\d[\w-]*\.\w+|(bm|vm)\.gpu[\w.-]+|[a-z]+\d\w*-\w+-\d+[gt]?|(standard_)?n[cdv]\w*_v\d"
    r"|gpu[_-]\w[\w-]*",
    re.IGNORECASE,
)
"""What names of instances look like: others are not looked up."""


class Instance(NamedTuple):
    """An instance: its name and its cloud's, the device, how many of it, and GiB of RAM."""

    name: str
    cloud: str
    device: str
    number: int
    ram_gib: int
    source: str

    @property
    def note(self) -> str:
        """`g6e.xlarge of aws is 1 x l40s with 32 GiB of RAM`."""
        return (
            f"{self.name} of {self.cloud} is {self.number} x {self.device} with {self.ram_gib:,} GiB of RAM"
        )


@lru_cache(64)
def instance_of(name: str) -> Instance | None:
    """The instance of a name in any case, with or without Standard_; None for any other name."""
    name = name.strip()
    key = re.sub(r"^standard_", "", name.lower())
    if not LIKE.fullmatch(name) or f" {key}:" not in _text():
        return None
    known = _instances().get(key)
    return known and known._replace(name=name)


def counted(text: str) -> tuple[int, str]:
    """The count and the device of `8xh100-sxm`, or of an instance: 2xg6e.12xlarge are 8 x l40s."""
    number, name = split_count(text)
    instance = instance_of(name)
    return (number, name) if instance is None else (number * instance.number, instance.device)


def ram_of(text: Any) -> int | None:
    """Bytes of RAM of the instance that a device's text names; None for any other."""
    instance = instance_of(split_count(text)[1]) if isinstance(text, str) else None
    return None if instance is None else instance.ram_gib << 30


@cache
def _text() -> str:
    return (shipped("devices") / INSTANCES).read_text(encoding="utf-8")


@cache
def _instances() -> dict[str, Instance]:
    """All instances by name; read once one of them is asked for."""
    root: Any = parse(text_of(_text(), INSTANCES)).root
    clouds = plain(root)
    return {
        name: Instance(name, cloud, **keys, source=about["source"])
        for cloud, about in clouds.items()
        for name, keys in about["instances"].items()
    }
