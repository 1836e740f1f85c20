"""What the page asks: presets, devices and formats, and the options of each tab's command, as JSON.

Names, help, choices and defaults are those of the command line. Only the order of the tabs, the options that
are shown first and the values that a form begins with are stated here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import typer

from archcli import __version__
from archcli.commands.line import completion
from archcli.commands.line.application import application
from archcli.commands.line.help import help_entry

INDEX = Path(__file__).parents[2] / "presets" / "index.json"


class Tab(NamedTuple):
    """A tab: its title, its command, the options shown first, and values that its form begins with."""

    title: str
    command: str
    first: tuple[str, ...]
    start: Mapping[str, str] = MappingProxyType({})


TABS = {
    "fit": Tab("Fit", "fit", ("device", "context", "dtype", "batch-size"), {"device": "h100-sxm"}),
    "size": Tab("Size", "params", ("dtype", "depth")),
    "cache": Tab("Cache", "kvcache", ("context", "batch-size", "kv-dtype", "device")),
    "memory": Tab("Memory", "memory", ("phase", "batch-size", "seq-len", "dtype", "device", "fit")),
    "speed": Tab(
        "Speed",
        "predict",
        ("device", "phase", "batch-size", "seq-len", "dtype", "engine"),
        {"device": "h100-sxm"},
    ),
    "work": Tab("FLOPs", "flops", ("phase", "batch-size", "seq-len", "image")),
    "compare": Tab("Compare", "compare", ("with", "context", "seq-len"), {"with": "llama-3.1-8b"}),
    "check": Tab("Check", "check", ("tp", "select", "ignore")),
    "formula": Tab("Formula", "explain", ("quantity", "phase", "seq-len", "context", "steps")),
    "drawing": Tab("Drawing", "draw", ("show",)),
    "report": Tab("Report", "report", ("device", "title", "note"), {"device": "h100-sxm"}),
}
SECOND = {
    "name": "with",
    "flag": "",
    "label": "Second model",
    "help": "A preset. `2:n_kv_heads=8` among the changes above is a change of it alone.",
    "default": "",
    "choices": [],
    "list": "presets",
    "switch": False,
    "repeats": False,
}
"""The field of the second model of `compare`, an argument that no option names."""
LABELS = {
    "dtype": "Weights in",
    "seq-len": "Sequence length",
    "kv-dtype": "Cache in",
    "state-dtype": "States in",
    "tp": "Tensor parallel",
    "sp": "Sequence parallel",
    "ep": "Expert parallel",
    "pp": "Pipeline stages",
    "cp": "Context parallel",
    "dp": "Replicas",
    "zero": "ZeRO",
    "past": "Tokens in the cache before",
    "source-len": "Tokens of the encoder",
    "context": "Tokens in the cache",
    "fit": "Find what fits",
    "new": "New tokens",
    "tokens": "Tokens of the training",
    "mla": "Latent attention",
    "scan": "Recurrent layers",
    "macs": "MACs in place of FLOPs",
    "ram": "RAM",
    "ttft": "Time to first token",
    "tpot": "Time per token",
    "hit": "Cached share",
    "show": "Bars show",
    "grad-accum": "Micro batches per step",
    "free": "Free memory",
}
"""Labels that are not the option's name with a capital letter."""
NOT_HERE = (
    (", a YAML file, or local", ""),
    ("; time needs --profile", ""),
    (": a YAML file, `shipped`, or `gpuhunt`, whose catalogue is on this machine", ": `shipped`"),
)
"""What the help offers on a command line, and a page cannot do."""
FILES = {"open", "against", "calibrate", "device-file", "files", "measured", "output", "plot", "profile"}
OF_MODULES = {"allow-uncounted", "by-class", "call", "input", "run-on"}
OF_MANY_MODELS = {"exit-zero", "min-speed", "sort", "statistics", "strict-files", "where"}
FORMS = {"format", "json", "set", "severity", "suggest", "symbols", "at"}
NOT_ASKED = FILES | OF_MODULES | OF_MANY_MODELS | FORMS
"""Options without a field: they read or write files, run modules, or change the form of the answer."""

LISTED = {"device": "devices", "kv-dtype": "cache_dtypes", "dtype": "dtypes", "state-dtype": "dtypes"}
CHOICES = re.compile(r"<(.+)>")
DEFAULT = re.compile(r"\s*\[([^][]*)\]\s*$")


def questions() -> dict[str, Any]:
    """All that the forms of the page are made of."""
    presets = json.loads(INDEX.read_text())
    return {
        "version": __version__,
        "presets": [[preset["name"], preset["params"]] for preset in presets],
        "devices": [name for name in completion.devices("") if name != "local"],
        "dtypes": completion.dtypes(""),
        "cache_dtypes": completion.cache_dtypes(""),
        "tabs": [{"id": name, **_tab(tab)} for name, tab in TABS.items()],
    }


def _tab(tab: Tab) -> dict[str, Any]:
    command = typer.main.get_command(application([tab.command])).commands[tab.command]  # type: ignore[attr-defined]
    context = command.make_context(tab.command, [], resilient_parsing=True)
    entries = [(parameter, help_entry(parameter, context)) for parameter in command.params]
    options = [_option(parameter, *entry) for parameter, entry in entries if entry] + [SECOND]
    asked = {option["name"]: option for option in options if option["name"] not in NOT_ASKED and option}
    asked = {name: option for name, option in asked.items() if not name.startswith("model")}
    first = [asked.pop(name) for name in tab.first]
    return {
        "title": tab.title,
        "command": tab.command,
        "about": command.get_short_help_str(200),
        "first": first,
        "more": [option for option in asked.values() if option["flag"]],
        "start": dict(tab.start),
    }


def _option(parameter: Any, shown: str, text: str) -> dict[str, Any]:
    """An option: its flag (an argument has none), help and default, its choices or the list of its names."""
    flag = next((opt for opt in parameter.opts if opt.startswith("--")), "")
    name = flag.removeprefix("--") or parameter.name
    choices = CHOICES.search(shown)
    # a drawing by time needs a saved profile, which the page has no field for
    words = (
        choices[1].split("|")
        if choices and "|" in choices[1]
        else shown.split("|")
        if "|" in shown and not flag
        else []
    )
    bracket = DEFAULT.search(text)
    for offered, instead in NOT_HERE:
        text = text.replace(offered, instead)
    return {
        "name": name,
        "flag": flag,
        "label": LABELS.get(name, name.replace("-", " ").capitalize()),
        "help": DEFAULT.sub("", text),
        "default": re.sub(r"(^|; )default: ", "", bracket[1]) if bracket else "",
        "choices": [word for word in words if (name, word) != ("show", "time")],
        "list": LISTED.get(name, ""),
        "switch": bool(getattr(parameter, "is_flag", False)),
        "repeats": bool(getattr(parameter, "multiple", False)),
    }


def main() -> None:
    """Print the questions, or write them to the file that is named."""
    text = json.dumps(questions(), separators=(",", ":"))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
