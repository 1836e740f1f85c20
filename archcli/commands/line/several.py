"""Options of commands that take several models: the models, and `--set` for one of them or all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from archcli.api.asking.question import Option
from archcli.errors import ArchError, Problem

SetOne = Annotated[
    list[str] | None,
    Option(
        "Change a field of model N, counted from 1, or without N of all: 2:n_kv_heads=8. Repeatable.",
        metavar="[N:]KEY=VALUE",
        completes="overrides",
        name="set",
    ),
]
"""The option of fields to set."""


def models_argument(count: str) -> Option:
    """The argument of several models; `count` says how many."""
    return Option(
        f"{count}: YAML, config.json or GGUF files, names of presets, - for standard input.",
        metavar="MODEL",
        completes="models",
        argument=True,
    )


def assigned(overrides: Sequence[str], n_models: int) -> list[list[str]]:
    """The overrides of each model: those with its number before a colon, and those without a number."""
    numbered = [(re.match(r"(\d+):", text), text) for text in overrides]
    beyond = [
        Problem(
            f"there is no model {number[1][:9]}",
            f"they count from 1 to {n_models}",
            path=f"--set {text[:40]}",
        )
        for number, text in numbered
        if number and not (len(number[1]) <= len(str(n_models)) and 1 <= int(number[1]) <= n_models)
    ]
    if beyond:
        raise ArchError(beyond)
    return [
        [
            text[number.end() :] if number else text
            for number, text in numbered
            if not number or int(number[1]) == i
        ]
        for i in range(1, n_models + 1)
    ]
