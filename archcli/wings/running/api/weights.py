"""Compare the tensors of a checkpoint with an architecture by name and shape."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archcli.api.asking.subject import Subject
from archcli.errors import sanitize
from archcli.load.checkpoint.checkpoint import Checkpoint, read_checkpoint, read_headers
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.map import WeightMap
from archcli.measure.report import Report
from archcli.wings.running.weights.checkpoint import (
    Comparison,
    as_stored,
    compare,
    compare_sums,
    count_checkpoint,
)
from archcli.wings.running.weights.headers import StoredTensor, count_headers

if TYPE_CHECKING:
    from archcli.modules import Model

UNNAMED = (
    "names were not compared: no config.json, of the model or beside the weights, says which family's they "
    "are."
)
TIED_UNASKED = "the checkpoint holds no head: it is tied, as the class ties it whatever the config says."


class CheckpointComparison(NamedTuple):
    """A checkpoint, and its tensors compared with those of a model, whose head may be tied as stored."""

    model: Model
    checkpoint: Checkpoint
    comparison: Comparison


def compare_checkpoint(subject: Subject, source: str) -> CheckpointComparison:
    """Compare a checkpoint's tensors with the model's by name; without a config.json by total size.

    A config.json says which family's names they are: the model's, or the one beside the weights.
    """
    checkpoint = read_checkpoint(source)
    # the config.json of the model itself goes first: the one beside the weights may be of another model
    config, place = subject.config, subject.source
    if config is None:
        config, place = checkpoint.config, f"{source}: config.json"
    if config is None:
        unnamed = checkpoint._replace(notes=(*checkpoint.notes, UNNAMED))
        sums = compare_sums(subject.model, checkpoint.shapes, WeightMap({}))
        return CheckpointComparison(subject.model, unnamed, sums)
    weights = weight_map(config, place)
    model = as_stored(subject.model, checkpoint.shapes, weights)
    # `as_stored` returns the model itself unless the checkpoint ties its head
    if model is not subject.model:
        checkpoint = checkpoint._replace(notes=(*checkpoint.notes, TIED_UNASKED))
    return CheckpointComparison(model, checkpoint, compare(model, checkpoint.shapes, weights))


def against_report(subject: Subject, source: str) -> Report:
    """The report of `params --against`: the tensors of a checkpoint beside those of the model."""
    model, checkpoint, comparison = compare_checkpoint(subject, source)
    return count_checkpoint(model, checkpoint.source, comparison, checkpoint.notes)


def headers_report(source: str) -> Report:
    """The report of `params` on a checkpoint without a config.json."""
    checkpoint = read_headers(source)
    tensors = [
        StoredTensor(name, "", None, 0)
        if entry is None
        else StoredTensor(name, entry.dtype, entry.shape, entry.end - entry.begin)
        for name, entry in checkpoint.tensors.items()
    ]
    name = sanitize(Path(source).resolve().name)
    return replace(count_headers(tensors, checkpoint.notes), model={"name": name, "source": source})
