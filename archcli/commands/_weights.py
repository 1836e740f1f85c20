"""What `params --against` and `verify --weights` share: a checkpoint beside an architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from archcli.commands.base import Subject
from archcli.errors import ArchError
from archcli.load.checkpoint.checkpoint import Checkpoint, read_checkpoint
from archcli.load.checkpoint.safetensors import read_tensor
from archcli.load.huggingface.importer import weight_map
from archcli.load.huggingface.weights.auxiliary import PACKED, SCALE
from archcli.load.huggingface.weights.map import WeightMap
from archcli.measure.checkpoint import Comparison, compare, compare_sums, folded, shape_text
from archcli.measure.passes import forward_pass
from archcli.recording.machine import available_memory
from archcli.render.progress import progress
from archcli.wording import quote

if TYPE_CHECKING:
    from archcli.runtime.verify.finding import Finding, Verdict

LONGEST_NAME = 200
UNNAMED = "names were not compared: no config.json, of the model or beside the weights, says which family's they are."


class Held(NamedTuple):
    """A checkpoint, and what became of each of its tensors."""

    checkpoint: Checkpoint
    found: Comparison


def held_against(asked: Subject, source: str) -> Held:
    """By name where a config.json says whose names they are, the model's own or the one beside the weights; else by their sum."""
    checkpoint = read_checkpoint(source)
    own = asked.config is not None
    config = asked.config if own else checkpoint.config
    if config is None:
        noted = checkpoint._replace(notes=(*checkpoint.notes, UNNAMED))
        return Held(noted, compare_sums(asked.model, checkpoint.shapes, WeightMap({})))
    weights = weight_map(config, asked.source if own else f"{source}: config.json")
    return Held(checkpoint, compare(asked.model, checkpoint.shapes, weights))


def verify_weights(asked: Subject, folder: str, dtype: str, batch_size: int, seq_len: int) -> Verdict:
    """Names and shapes, and where nothing is wrong with them, logits: torch and transformers are imported only then."""
    checkpoint, found = held_against(asked, folder)
    if checkpoint.config is None:
        raise ArchError(f"{folder}: no config.json beside the weights", "transformers needs one to load them")
    packed = next(
        (line.name for line in found.lines if line.status == "packed" or line.reason in {SCALE, PACKED}), None
    )
    if packed is not None:
        raise ArchError(
            f"{folder}: quantized, as {quote(packed, LONGEST_NAME)} says",
            "params --against compares names and shapes",
        )
    from archcli.runtime.verify.finding import Verdict
    from archcli.runtime.weights.compare import Job, Placed, check_weights

    findings = tuple(_findings(found))
    if not found.ok:
        return Verdict(findings, (*checkpoint.notes, "logits were not compared."))
    tensors = ((checkpoint.tensors[name], place) for name, place in found.places.items())
    placed = Placed(tuple((stored, place) for stored, place in tensors if stored is not None), read_tensor)
    if len(placed.tensors) < len(found.places):
        raise ArchError(
            f"{folder}: some shards are not here", "params --against compares the names of their tensors"
        )
    params = int(forward_pass(asked.model, 1, 1).params())
    with progress(f"verifying {asked.name}") as tick:
        job = Job(folder, checkpoint.config, params, dtype, batch_size, seq_len)
        logits = check_weights(asked.model, placed, job, available_memory(), tick)
    return Verdict((*findings, *_copies(checkpoint, found), *logits), checkpoint.notes)


def _findings(found: Comparison) -> list[Finding]:
    """How many tensors have their place, and each that is wrong, layers folded."""
    from archcli.runtime.verify.finding import Finding

    wrong = [record for record in folded(found.lines) if not record["ok"]]
    count = len(found.places) + sum(record["times"] for record in wrong)
    told = [
        Finding(
            "the checkpoint",
            record["status"],
            shape_text(record["needed"]),
            shape_text(record["shape"]),
            record["name"],
        )
        for record in wrong
    ]
    return [Finding("the checkpoint", "tensors by name and shape", count, len(found.places)), *told]


def _copies(checkpoint: Checkpoint, found: Comparison) -> Iterator[Finding]:
    """Whether tied weights that are stored more than once are the same, byte by byte."""
    from archcli.runtime.verify.finding import Finding

    pairs = [(checkpoint.tensors[name], checkpoint.tensors[holder]) for name, holder in found.copies]
    equal = sum(
        read_tensor(one) == read_tensor(other)
        for one, other in pairs
        if one is not None and other is not None
    )
    if pairs:
        yield Finding("the checkpoint", "copies of tied weights that are equal", len(pairs), equal)
