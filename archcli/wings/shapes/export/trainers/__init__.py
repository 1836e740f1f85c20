"""Configs of training programs: a table for each, from our settings to their keys, and one reader."""

from __future__ import annotations

from importlib import import_module

from archcli.wings.shapes.export.trainers.table import TrainingProgram


def trainer(name: str) -> TrainingProgram:
    """The training program of a name of `--to`."""
    table: TrainingProgram = import_module(f"{__name__}.{name}").TRAINER
    return table
