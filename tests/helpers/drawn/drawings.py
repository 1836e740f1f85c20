"""Drawings of presets, and all their faults: in Chromium, and against the commands' JSON."""

from functools import cache
from pathlib import Path
from random import Random

import archcli
from archcli.load.presets import presets
from drawn import counted
from drawn.faults import faults
from drawn.measuring import measured

PAIRS = 20


@cache
def pairs():
    """Pairs of presets, always the same."""
    chance, names = Random(5), presets()  # noqa: S311 - a sample of tests
    return [tuple(chance.sample(names, 2)) for _ in range(PAIRS)]


def drawing(*models, **options):
    """The SVG of one or several models, or of a file."""
    if models[0].endswith(".svg"):
        return Path(models[0]).read_text(encoding="utf-8")
    return archcli.draw(*models, **options)._repr_svg_()


@cache
def document(command, model):
    """The JSON of a command about a preset, or about a tower of it: `qwen3-vl-8b: vision_tower`."""
    name, _, part = model.partition(": ")
    whole = archcli.load(name)
    asked = next((tower.model for tower in whole.towers if tower.part == part), name)
    if asked is name and command == "show" and (seen := counted.seen_by_layers(whole)):
        return archcli.show(name, image=[medium.size for medium in seen]).to_dict()
    return getattr(archcli, command)(asked).to_dict()


def columns_of(*models):
    """The models of a drawing, those of several, or one and its towers."""
    towers = archcli.load(models[0]).towers if len(models) == 1 else ()
    return [*models, *(f"{models[0]}: {tower.part}" for tower in towers)]


def seen_faults(browser, svg):
    """What Chromium shows wrong."""
    return faults(measured(browser, svg))


def counted_faults(svg, *models):
    """What a drawing says otherwise than the commands."""
    found = {}
    checks = (
        counted.miscounted(svg, lambda command, model: document(command, model or models[0])),
        counted.misprinted(svg),
        counted.misplaced(svg, [document("show", model) for model in columns_of(*models)]),
        counted.out_of_scale(svg),
    )
    for check in checks:
        for kind, what in check:
            found.setdefault(kind, []).append(what)
    return found
