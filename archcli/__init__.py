"""archcli: how big an architecture is, what it computes, caches and needs, and where its time goes.

    load("my.yaml")            the architecture: fields checked, no torch
    build("my.yaml")           an ordinary torch.nn.Module, freshly initialised (needs torch)
    fit                        whether it fits a device, in which format, and how fast; or what fits there
    count_params, count_flops, count_kv_cache, count_memory    reports, as commands print them
    params, flops, kvcache, memory   the same functions by the names of the commands
    predict, survey, compare   time on a device; many architectures by columns; a few side by side
    check, show, explain       design rules; the forward; where a number comes from, as a formula
    draw, report               architectures as drawings to scale, and as a page that calculates
    profile, plot, verify      measured on this machine; its picture; counts beside torch's
    summary, rows              any torch.nn.Module of yours, by its modules; count_… and profile take one, too
    scale                      a family at another size, or for a budget of training
    formula, sweep             closed forms with sympy; which of a million shapes meet conditions, with numpy
    presets, families, devices, engines, design_rules, yaml_schema    what archcli knows
    list, rules, rule, schema  the same functions by the names of the commands
    register                   a kind of your own, for YAML files to name

A model is a path, a preset's name, `org/name` on the hub, a mapping as YAML or config.json hold it, or a
`Model`. Arguments have the names, limits and defaults of the options; anything else raises `ArchError`.
"""

from __future__ import annotations

# first, as Ctrl-C may come during any import
from archcli.commands.line import interrupts as _interrupts  # noqa: F401

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any

from archcli.lazy import lazy

if TYPE_CHECKING:
    from archcli.api.check import check
    from archcli.api.compare import compare
    from archcli.api.design_rules import design_rules
    from archcli.api.families import families
    from archcli.api.flops import count_flops
    from archcli.api.flops import count_flops as flops
    from archcli.api.kvcache import count_kv_cache
    from archcli.api.kvcache import count_kv_cache as kvcache
    from archcli.api.params import count_params
    from archcli.api.params import count_params as params
    from archcli.api.presets import presets
    from archcli.api.schema import yaml_schema
    from archcli.api.show import show
    from archcli.api.survey import survey
    from archcli.errors import ArchError
    from archcli.load import load
    from archcli.measure.report import Report
    from archcli.modules import Model
    from archcli.modules.spec.kinds import register
    from archcli.modules.spec.request import Request
    from archcli.wings.drawing.api.draw import draw
    from archcli.wings.drawing.api.report import report
    from archcli.wings.running.api.build import build
    from archcli.wings.running.api.own import rows, summary
    from archcli.wings.running.api.plot import plot
    from archcli.wings.running.api.profile import profile
    from archcli.wings.running.api.verify import verify
    from archcli.wings.serving.api.devices import devices
    from archcli.wings.serving.api.engines import engines
    from archcli.wings.serving.api.fit import fit
    from archcli.wings.serving.api.memory import count_memory
    from archcli.wings.serving.api.memory import count_memory as memory
    from archcli.wings.serving.api.predict import predict
    from archcli.wings.shapes.api.explain import explain, formula
    from archcli.wings.shapes.api.scale import scale
    from archcli.wings.shapes.api.sweep import sweep
    from archcli.wings.shapes.symbolic.formula import Formula
    from archcli.wings.shapes.symbolic.sweep import Sweep


__version__ = "0.1.0"  # read by pyproject.toml, too

HOMES = {
    ".api.build": ["build"],
    ".api.check": ["check"],
    ".api.compare": ["compare"],
    ".api.design_rules": ["design_rules"],
    ".api.devices": ["devices"],
    ".api.draw": ["draw"],
    ".api.engines": ["engines"],
    ".api.explain": ["explain", "formula"],
    ".api.families": ["families"],
    ".api.fit": ["fit"],
    ".api.flops": ["count_flops"],
    ".api.kvcache": ["count_kv_cache"],
    ".api.memory": ["count_memory"],
    ".api.own": ["rows", "summary"],
    ".api.params": ["count_params"],
    ".api.plot": ["plot"],
    ".api.predict": ["predict"],
    ".api.presets": ["presets"],
    ".api.profile": ["profile"],
    ".api.report": ["report"],
    ".api.scale": ["scale"],
    ".api.schema": ["yaml_schema"],
    ".api.show": ["show"],
    ".api.survey": ["survey"],
    ".api.sweep": ["sweep"],
    ".api.verify": ["verify"],
    ".errors": ["ArchError"],
    ".measure.report": ["Report"],
    ".measure.symbolic.formula": ["Formula"],
    ".measure.symbolic.sweep": ["Sweep"],
    ".modules": ["Model"],
    ".modules.spec.kinds": ["register"],
    ".modules.spec.request": ["Request"],
}
"""The public names by the file that defines them, which is imported when one is first used."""
BY_COMMAND = {
    "params": "count_params",
    "flops": "count_flops",
    "kvcache": "count_kv_cache",
    "memory": "count_memory",
    "list": "presets",
    "rule": "design_rules",
    "schema": "yaml_schema",
}
"""Functions by the names of their commands, where they have another name, too."""
PACKAGES = {"load", "rules"}
"""Packages that can be called."""
_public, _ = lazy(__name__, HOMES)


def __getattr__(name: str) -> Any:
    """A public name, when it is first used."""
    if name in PACKAGES:
        return import_module(f"archcli.{name}")
    if name.startswith("_") or name in __all__ or name in BY_COMMAND:
        value = _public(BY_COMMAND.get(name, name))
        globals()[name] = value  # the next use does not come here
        return value
    from archcli.errors import suggest

    raise AttributeError(f"module 'archcli' has no attribute {name!r}; {suggest(name, __all__, 'it has')}")


def __dir__() -> list[str]:
    return sorted({*__all__, *BY_COMMAND, *PACKAGES, "__version__"})


__all__ = [
    "ArchError",
    "Formula",
    "Model",
    "Report",
    "Request",
    "Sweep",
    "build",
    "check",
    "compare",
    "count_flops",
    "count_kv_cache",
    "count_memory",
    "count_params",
    "design_rules",
    "devices",
    "draw",
    "engines",
    "explain",
    "families",
    "fit",
    "flops",
    "formula",
    "kvcache",
    "load",
    "memory",
    "params",
    "plot",
    "predict",
    "presets",
    "profile",
    "register",
    "report",
    "rows",
    "scale",
    "show",
    "summary",
    "survey",
    "sweep",
    "verify",
    "yaml_schema",
]
