"""archcli: how big an architecture is, what it computes, caches and needs, and where its time goes.

    load("my.yaml")            the architecture: fields checked, no torch
    build("my.yaml")           an ordinary torch.nn.Module, freshly initialised (needs torch)
    fit, choose                whether it fits a device, in which format, how fast; which devices to choose
    count_params, count_flops, count_kv_cache, count_memory    reports, as commands print them
    params, flops, kvcache, memory   the same functions by the names of the commands
    predict, survey, compare   time on a device; many architectures by columns; a few side by side
    check, show, explain       design rules; the forward; where a number comes from, as a formula
    draw, report               architectures as drawings to scale, and as a page that calculates
    profile, plot, verify      measured on this machine; its picture; counts beside torch's
    summary, rows              any torch.nn.Module of yours, by its modules; count_… and profile take one, too
    scale                      a family at another size, or for a budget of training
    export                     the config.json of an architecture, for transformers
    formula, sweep             closed forms with sympy; which of a million shapes meet conditions, with numpy
    presets, families, devices, engines, trainers, design_rules, yaml_schema    what archcli knows
    list, rules, rule, schema  the same functions by the names of the commands
    register                   a kind of your own, for YAML files to name

A model is a path, a preset's name, `org/name` on the hub, a mapping as YAML or config.json hold it, or a
`Model`. Arguments have the names, limits and defaults of the options; anything else raises `ArchError`.
"""

from __future__ import annotations

# first, as Ctrl-C may come during any import
from archcli import interrupts as _interrupts  # noqa: F401

# isort: split
from importlib import import_module
from typing import Any

from archcli.lazy import lazy

__version__ = "0.1.0"  # read by pyproject.toml, too

HOMES = {
    ".api.check": ["check"],
    ".api.compare": ["compare"],
    ".api.design_rules": ["design_rules"],
    ".api.families": ["families"],
    ".api.flops": ["count_flops"],
    ".api.kvcache": ["count_kv_cache"],
    ".api.params": ["count_params"],
    ".api.presets": ["presets"],
    ".api.schema": ["yaml_schema"],
    ".api.show": ["show"],
    ".api.survey": ["survey"],
    ".errors": ["ArchError"],
    ".measure.report": ["Report"],
    ".modules": ["Model"],
    ".modules.spec.kinds": ["register"],
    ".modules.spec.request": ["Request"],
}
"""The public names by the file that defines them, which is imported when one is first used."""
BY_COMMAND = {
    "params": "count_params",
    "flops": "count_flops",
    "kvcache": "count_kv_cache",
    "list": "presets",
    "rule": "design_rules",
    "schema": "yaml_schema",
}
"""Functions by the names of their commands, where they have another name, too."""
BUILT_IN = {"list", "rule", "schema"}
"""Those among them that `from archcli import *` leaves out."""
PACKAGES = {"load", "rules"}
"""Packages that can be called."""
_public, _ = lazy(__name__, HOMES)


def _names() -> list[str]:
    """The public names, including those of installed wings."""
    from archcli.plugins import offers

    of_core = (name for names in HOMES.values() for name in names)
    return sorted({*of_core, *offers("archcli.functions"), *BY_COMMAND, "load"}.difference(BUILT_IN))


def __getattr__(name: str) -> Any:
    """A public name, when it is first used."""
    if name in PACKAGES:
        return import_module(f"archcli.{name}")
    if name == "__all__":
        return _names()
    if not name.startswith("_") and (name in BY_COMMAND or name in _names()):
        from archcli.plugins import imported, offers

        place = offers("archcli.functions").get(name)
        value = imported(place) if place else _public(BY_COMMAND.get(name, name))
        globals()[name] = value  # the next use does not come here
        return value
    if name.startswith("_"):
        raise AttributeError(f"module 'archcli' has no attribute {name!r}")
    from archcli.errors import suggest

    raise AttributeError(f"module 'archcli' has no attribute {name!r}; {suggest(name, _names(), 'it has')}")


def __dir__() -> list[str]:
    return sorted({*_names(), *BY_COMMAND, *PACKAGES, "__version__"})
