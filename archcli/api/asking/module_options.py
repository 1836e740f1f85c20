"""The options of modules of one's own: how one is run, on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from archcli.api.asking.question import Option

Inputs = Annotated[
    Sequence[str],
    Option(
        "Of a module or class: an input by name, dtype and shape, 'ids=int64[1,2048]'. Repeatable.",
        metavar="NAME=DTYPE[SHAPE]",
    ),
]
Call = Annotated[
    str, Option("Of a module or class: the method that is run.", metavar="METHOD", default="forward")
]
RunOn = Annotated[
    Literal["meta", "cpu", "cuda"],
    Option("Of a module or class: run without values (meta), or with them on a device."),
]
AllowUncounted = Annotated[
    bool, Option("Of a module or class: note products without a formula in place of refusing them.")
]
ByClass = Annotated[
    bool,
    Option(
        "Of a config.json: count the class of transformers, not archcli's description; say the difference."
    ),
]


@dataclass(frozen=True)
class ModuleOptions:
    """Options for running a module: its inputs, method, device, and operations without a formula."""

    input: Inputs = ()
    call: Call = "forward"
    run_on: RunOn = "meta"
    allow_uncounted: AllowUncounted = False
    by_class: ByClass = False


def is_module(thing: Any) -> bool:
    """Whether it is an nn.Module, told without importing torch."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(thing).__mro__)
