"""Compare a checkpoint with an architecture, and its logits with those of transformers."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.api.asking.subject import Subject
from archcli.arith import prod
from archcli.errors import ArchError, quote
from archcli.load.checkpoint.checkpoint import Checkpoint
from archcli.load.checkpoint.safetensors import read_tensor
from archcli.load.huggingface.weights.auxiliary import PACKED, SCALE
from archcli.measure.passes import shape_pass
from archcli.measure.weights.stored_bytes import tower_tensors
from archcli.modules import Model
from archcli.modules.spec.request import Medium, Request
from archcli.render.screen import progress
from archcli.wings.media.modules.models.media import why_not_run
from archcli.wings.running.api.weights import compare_checkpoint
from archcli.wings.running.runtime.verify.result import ReferenceResult, VerifyResult
from archcli.wings.running.weights.checkpoint import Comparison, folded, shape_text
from archcli.wings.serving.recorded.machine import available_memory

LONGEST_NAME = 200


def verify_weights(subject: Subject, folder: str, dtype: str, request: Request) -> VerifyResult:
    """Compare names and shapes, then, where they agree, logits with transformers.

    A model with towers reads the media of the request, or one of the usual size.
    """
    model, checkpoint, comparison = compare_checkpoint(subject, folder)
    if checkpoint.config is None:
        raise ArchError(f"{folder}: no config.json beside the weights", "transformers needs one to load them")
    _refuse_quantized(comparison, folder)
    # torch and transformers are imported only now, after everything that may refuse
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
    pairs = [(checkpoint.tensors[name], checkpoint.tensors[holder]) for name, holder in comparison.copies]
    equal = sum(
        read_tensor(copy) == read_tensor(original)
        for copy, original in pairs
        if copy is not None and original is not None
    )
    if pairs:
        yield ReferenceResult("the checkpoint", "copies of tied weights that are equal", len(pairs), equal)
