"""Recomputation: which modules or operations run again in the backward, and keep their inputs alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

LAYER = re.compile(r"(.*\.)?layers\.[^.]+")
CORE = re.compile(r"(.*\.)?layers\.[^.]+\..*attend[^.]*")


def recomputed(setting: str) -> Callable[[str], bool] | None:
    """Whether a path is recomputed, by the setting; None where nothing is.

    layer: every layer, so that its input alone is kept (arXiv:1604.06174). attention: the scores, softmax and
    mix (selective recomputation, arXiv:2205.05198). Anything else is a pattern of paths of modules or
    operations, such as `layers.*.ffn`, in which * stands for any text. Several are joined by commas.
    """
    if "," in setting:
        return _any_of([recomputed(part.strip()) for part in setting.split(",") if part.strip()])
    if setting == "none":
        return None
    if setting == "layer":
        return lambda path: LAYER.fullmatch(path) is not None
    if setting == "attention":
        return lambda path: CORE.fullmatch(path) is not None
    return lambda path: fnmatchcase(path, setting)


def _any_of(rules: list[Callable[[str], bool] | None]) -> Callable[[str], bool]:
    return lambda path: any(rule(path) for rule in rules if rule is not None)
