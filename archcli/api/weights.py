"""Compare a checkpoint with an architecture, for `params --against` and `verify --weights`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from archcli.api.asking.subject import Subject
from archcli.arith import prod
from archcli.errors import ArchError, quote
from archcli.load.checkpoint.checkpoint import Checkpoint, read_checkpoint
from archcli.load.checkpoint.safetensors import read_tensor
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.auxiliary import PACKED, SCALE
from archcli.load.huggingface.weights.map import WeightMap
from archcli.measure.passes import shape_pass
from archcli.measure.weights.checkpoint import (
    Comparison,
    as_stored,
    compare,
    compare_sums,
    folded,
    shape_text,
)
from archcli.measure.weights.stored_bytes import tower_tensors
from archcli.modules.spec.request import Medium, Request
from archcli.render.screen import progress
from archcli.wings.running.recording.machine import available_memory

if TYPE_CHECKING:
    from archcli.modules import Model
    from archcli.wings.running.runtime.verify.result import ReferenceResult, VerifyResult

LONGEST_NAME = 200
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


def verify_weights(subject: Subject, folder: str, dtype: str, request: Request) -> VerifyResult:
    """Compare names and shapes, then, where they agree, logits with transformers.

    A model with towers reads the media of the request, or one of the usual size.
    """
    model, checkpoint, comparison = compare_checkpoint(subject, folder)
    if checkpoint.config is None:
        raise ArchError(f"{folder}: no config.json beside the weights", "transformers needs one to load them")
    _refuse_quantized(comparison, folder)
    # torch and transformers are imported only now, after everything that may refuse
    from archcli.wings.running.runtime.verify.result import VerifyResult
    from archcli.wings.running.runtime.weights.compare import PlacedTensors, WeightCheck, check_weights

    results = tuple(_results(comparison))
    if not comparison.ok:
        return VerifyResult(results, (*checkpoint.notes, "logits were not compared."))
    tensors = ((checkpoint.tensors[name], place) for name, place in comparison.places.items())
    read = [(stored, place) for stored, place in tensors if stored is not None]
    # a tensor whose shard is missing has a name and no bytes
    if len(read) < len(comparison.places):
        raise ArchError(
            f"{folder}: some shards are not here", "params --against compares the names of their tensors"
        )
    stored = {name: entry for name, entry in checkpoint.tensors.items() if entry is not None}
    params = int(shape_pass(model).params())
    media: tuple[Medium, ...] = ()
    notes = checkpoint.notes
    if model.towers or request.media:
        media, reason = _media(model, comparison, request)
        params += sum(int(prod(shape)) for shape in tower_tensors(model)[0].values()) if media else 0
        notes = (*notes, *([f"the language model alone is run: {reason}."] if reason else []))
        if reason:
            parts = _parts(model)
            read = [(stored, place) for stored, place in read if not place.names[0].startswith(parts)]
    with progress(f"verifying {subject.name}") as tick:
        job = WeightCheck(folder, checkpoint.config, stored, params, dtype, request, media)
        logits = check_weights(model, PlacedTensors(tuple(read), read_tensor), job, available_memory(), tick)
    return VerifyResult((*results, *_copies(checkpoint, comparison), *logits), notes)


def _media(model: Model, comparison: Comparison, request: Request) -> tuple[tuple[Medium, ...], str]:
    """The media that both models read, and why there are none; ArchError where some are asked for."""
    from archcli.wings.media.modules.models.media import why_not_run  # of models with towers alone

    named = any(place.names[0].startswith(_parts(model)) for place in comparison.places.values())
    reason = why_not_run(model) or ("" if named else "names of its towers' tensors are not known")
    if not reason:
        return request.media or (model.towers[0].usual,), ""
    if request.media:
        raise ArchError(f"no image or sound is read: {reason}", "leave --image and --audio-… out")
    return (), reason


def _parts(model: Model) -> tuple[str, ...]:
    """How names of the tensors of towers begin."""
    return tuple(f"{tower.part}." for tower in model.towers)


def _refuse_quantized(comparison: Comparison, folder: str) -> None:
    for line in comparison.lines:
        # matrices in fp8 keep their names and shapes: the scales beside them tell
        if line.status == "packed" or line.reason in {SCALE, PACKED}:
            raise ArchError(
                f"{folder}: quantized, as {quote(line.name, LONGEST_NAME)} says",
                "params --against compares names and shapes",
            )


def _results(comparison: Comparison) -> list[ReferenceResult]:
    """Results: the number of equal tensors, and those that differ, folded over layers."""
    from archcli.wings.running.runtime.verify.result import ReferenceResult

    wrong = [record for record in folded(comparison.lines) if not record["ok"]]
    count = len(comparison.places) + sum(record["times"] for record in wrong)
    differing = [
        ReferenceResult(
            "the checkpoint",
            record["status"],
            shape_text(record["needed"]),
            shape_text(record["shape"]),
            record["name"],
        )
        for record in wrong
    ]
    return [
        ReferenceResult("the checkpoint", "tensors by name and shape", count, len(comparison.places)),
        *differing,
    ]


def _copies(checkpoint: Checkpoint, comparison: Comparison) -> Iterator[ReferenceResult]:
    """Whether tied weights that are stored more than once are equal, byte by byte."""
    from archcli.wings.running.runtime.verify.result import ReferenceResult

    pairs = [(checkpoint.tensors[name], checkpoint.tensors[holder]) for name, holder in comparison.copies]
    equal = sum(
        read_tensor(copy) == read_tensor(original)
        for copy, original in pairs
        if copy is not None and original is not None
    )
    if pairs:
        yield ReferenceResult("the checkpoint", "copies of tied weights that are equal", len(pairs), equal)
