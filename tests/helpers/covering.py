"""Presets that stand for all of them: each pair of neighbouring operations of any preset is in one of these.

`pytest -n0 -m long --renew tests/presets/test_covering.py` writes the list anew, after a new preset.
"""

import dataclasses
from itertools import pairwise
from pathlib import Path

from archcli.load.presets import presets
from archcli.load.source import load
from archcli.measure.passes import forward_pass

COVERING = Path(__file__).with_suffix(".txt").read_text().split()


def sort_of(op):
    """An operation without its name and sizes: its class, switches, words and parts."""
    values = (
        (field.name, getattr(op, field.name)) for field in dataclasses.fields(op) if field.name != "name"
    )
    kinds = (
        (name, value if isinstance(value, str | bool) else type(value).__name__)
        for name, value in values
        if isinstance(value, bool) or not isinstance(value, int | float)
    )
    return (type(op).__name__, *kinds)


def neighbours(name):
    """Pairs of operations that follow each other in a preset or in one of its towers."""
    model = load(name).model
    passes = [forward_pass(part, 1, 8).rows for part in (model, *(tower.model for tower in model.towers))]
    return {(sort_of(a.op), sort_of(b.op)) for rows in passes for a, b in pairwise(rows)}


def covering():
    """Presets with all pairs, the one with most new pairs first."""
    pairs = {name: neighbours(name) for name in presets()}
    missing, chosen = set().union(*pairs.values()), []
    while missing:
        best = max(pairs, key=lambda name: (len(pairs[name] & missing), -len(pairs[name])))
        chosen.append(best)
        missing -= pairs[best]
    return sorted(chosen)
