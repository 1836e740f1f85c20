"""Configs of training programs: a table for each, from our settings to their keys, and one reader."""

from __future__ import annotations

from importlib import import_module

from archcli.wings.shapes.export.trainers.table import Trainer


def trainer(name: str) -> Trainer:
    """The training program of a name of `--to`."""
    table: Trainer = import_module(f"{__name__}.{name}").TRAINER
    return table
