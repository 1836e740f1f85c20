"""Presets with few layers: of each group one period of its pattern, or four of a short one."""

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.modules import substitute
from archcli.modules.models.stack import stacks
from archcli.modules.spec.base import settings

SHORT = 2
"""Periods of which there are four: the first, two in the middle, the last."""


def shortened(name, window=None):
    """The preset with as few layers as have all kinds; all where layers name others by number.

    With `window` no window or chunk is longer than that, so that a few tokens go beyond it.
    """
    model = load(name).model
    changes = {} if window is None else short_windows(model, window)
    for prefix, stack in stacks(model):
        for i, group in enumerate(stack.groups):
            period = len(group.blocks)
            few = 4 * period if period <= SHORT else period + group.n_layers % period
            changes[f"{prefix}groups.{i}.n_layers"] = min(few, group.n_layers)
    try:
        return load(name, [f"{path}={value}" for path, value in changes.items()]).model
    except ArchError:  # a layer reads of one that is no longer there
        return substitute(model, short_windows(model, window)) if window else model


def short_windows(model, window):
    """Settings that make windows and chunks no longer than this."""
    sizes = ((path, n) for path, n in settings(model) if path.rpartition(".")[2] in {"window", "chunk"})
    return {path: min(n, window) for path, n in sizes if isinstance(n, int)}
