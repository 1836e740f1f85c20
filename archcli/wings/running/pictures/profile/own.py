"""The picture of a profile of a training program or a user's module: time by class, then by module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from archcli.render.picture.elements import LINE, colour, element, text, titled
from archcli.render.picture.labels import text_width
from archcli.wings.running.pictures.profile.bars import NAME, STEP, bar, legend, legend_height
from archcli.wings.running.pictures.profile.drawing import GAP, FigureTable, Picture
from archcli.wings.serving.recorded.classes import FRAMEWORK, UNATTRIBUTED, label_of

MOST_MODULES, MOST_ROWS = 20, 40
"""Modules in the drawing, and rows of the page's tables; the slowest first."""
STRIP, MODULE_STEP = 12, 40
"""Pixels of a module's strip, and from its name to the next one's."""
PLACES = {"(between kernels)": str(FRAMEWORK), "(data loader)": "waiting"}
"""The class of time at a place without rows."""
Document = Mapping[str, Any]


class ModuleTime(NamedTuple):
    """The share of a step's time that a module takes, and its parts by class."""

    path: str
    name: str
    share: float
    by_class: Mapping[str, float]


def is_of_own(document: Document) -> bool:
    """Whether it is the profile of a program or module, not of a described model."""
    # classes of a described model have FLOPs and bytes too, so that their entries are records
    return all(isinstance(share, float | int) for share in document["totals"]["by_class"].values())


def picture_of_own(document: Document) -> Picture:
    """The picture of the JSON of `archcli profile -- python train.py`, or of a module's profile."""
    by_class = dict(sorted(document["totals"]["by_class"].items(), key=_last_framework))
    modules = _modules(document)
    warnings = [note for note in document["notes"] if "NOT RELIABLE" in note]
    return Picture(
        f"{document['model']['name']}: where the time goes",
        _lead(by_class),
        warnings,
        not warnings,
        _settings(document),
        partial(_figure, by_class, modules),
        _tables(document, by_class, modules),
    )


def _last_framework(entry: tuple[str, float]) -> tuple[bool, float]:
    """Sort key: the largest share first, time outside of kernels last."""
    name, share = entry
    return name in {FRAMEWORK, UNATTRIBUTED}, -share


def _lead(by_class: Mapping[str, float]) -> str:
    """The class that takes most, in a sentence."""
    name = max(by_class, key=lambda name: by_class[name])
    label = label_of(name)
    return f"{label[:1].upper()}{label[1:]}: {by_class[name]:.1%} of the time."


def _settings(document: Document) -> str:
    """How long a step or a pass took, and on what."""
    totals, inputs = document["totals"], document["inputs"]
    machine = totals.get("machine", {})
    if "wall_s" in totals:  # a module
        return f"{inputs['phase']}, {inputs['device']}; {totals['wall_s'] * 1e3:,.3f} ms a pass"
    place = machine.get("CPU" if totals["device"] == "cpu" else "processor", totals["device"])
    watched = f"{totals['steps_watched']:,} of {totals['steps']:,} steps traced"
    step = totals["step_s"]
    return ", ".join(filter(None, (watched, str(place)))) + (f"; {step * 1e3:,.1f} ms a step" if step else "")


def _modules(document: Document) -> list[ModuleTime]:
    """The modules and other places, the slowest first."""
    rows = document["rows"]
    shares = document["totals"].get("by_path") or {row["path"]: row["share"] for row in rows}
    by_class: dict[str, dict[str, float]] = {path: {} for path in shares}
    for row in rows:
        split = by_class.setdefault(row["path"], {})
        name = row.get("class", "")
        split[name] = split.get(name, 0.0) + row["share"]
    for path, name in PLACES.items():
        if path in shares and not by_class[path]:
            by_class[path] = {name: shares[path]}
    names = {row["path"]: row.get("module") or row.get("op") or "" for row in rows}
    slowest = sorted(shares, key=lambda path: -shares[path])
    return [
        ModuleTime(path, names.get(path, ""), shares[path], by_class[path])
        for path in slowest
        if shares[path] > 0
    ]


def _figure(
    by_class: Mapping[str, float], modules: Sequence[ModuleTime], top: float, width: float
) -> tuple[list[str], float]:
    """The bar by class, its legend and a strip for each module from `top` down, and the y of their end."""
    known = [name for name, share in by_class.items() if share > 0]
    shapes = [text(0, top + 12, "time by class", "name"), *bar(by_class, top + NAME, width)]
    shapes += legend(known, top + STEP, width)
    y = top + STEP + legend_height(known, width) + GAP
    shapes.append(text(0, y, "time by module", "name"))
    y += LINE + NAME - MODULE_STEP
    for module in modules[:MOST_MODULES]:
        y += MODULE_STEP
        shapes += _strip(module, modules[0].share, y, width)
    hidden = len(modules) - MOST_MODULES
    if hidden > 0:
        y += MODULE_STEP
        shapes.append(text(0, y, f"and {hidden:,} more", "soft"))
    return shapes, y + LINE + STRIP


def _strip(module: ModuleTime, most: float, y: float, width: float) -> Iterator[str]:
    """A module's name and share, and below them its time by class; the slowest module's is `width` wide."""
    share = f"{module.share:.1%}"
    room = width - text_width(share) - GAP
    path = _cut(module.path, room - text_width(module.name))
    yield text(0, y, path)
    yield text(text_width(path) + 8, y, module.name, "soft") if module.name else ""
    yield text(width, y, share, "soft", "end")
    x = 0.0
    for name, part in sorted(module.by_class.items(), key=lambda entry: -entry[1]):
        long = part / most * width
        shape = element("rect", x=x, y=y + 6, width=long, height=STRIP, fill=colour(name))
        yield titled(shape, f"{module.path}{f', {label_of(name)}' if name else ''}: {part:.2%}")
        x += long


def _cut(path: str, width: float) -> str:
    """A path, its beginning cut where there is no room for it."""
    while text_width(path) > width and len(path) > 2:  # noqa: PLR2004
        path = f"…{path.removeprefix('…')[1:]}"
    return path


def _tables(
    document: Document, by_class: Mapping[str, float], modules: Sequence[ModuleTime]
) -> list[FigureTable]:
    classes = [(label_of(name), f"{share:.2%}") for name, share in by_class.items()]
    paths = [(f"{module.path} {module.name}".strip(), f"{module.share:.2%}") for module in modules]
    rows = [
        (
            ", ".join(filter(None, (row["path"], row.get("phase"), label_of(row.get("class", ""))))),
            f"{row['share']:.2%}",
            f"{row['seconds'] * 1e3:,.3f}",
        )
        for row in document["rows"]
    ]
    return [
        FigureTable("By class", "classes", ("time",), classes, len(classes)),
        FigureTable("By module", "modules", ("time",), paths, MOST_ROWS),
        FigureTable("By module, phase and class", "rows", ("time", "ms"), rows, MOST_ROWS),
    ]
