"""Numbers of a config.json with bounds of their own."""

from __future__ import annotations

from archcli.load.huggingface.config import Config
from archcli.load.huggingface.value import ConfigValue


def optional_number(config: Config, name: str) -> ConfigValue[float] | None:
    """A number, or None where the file says null."""
    absent = config.stated_null(name) or config.get(name, default=None) is None
    return None if absent else config.number(name)


def positive(config: Config, name: str) -> ConfigValue[float]:
    """A number above 0."""
    number = config.number(name)
    if number.value <= 0:
        raise config.error(f"{name} must be above 0, not {number}", at=number.place)
    return number
