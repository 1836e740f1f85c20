"""Notes that explain the figures of a profile of one model. Warnings are in `profile/warnings.py`."""

from __future__ import annotations

from collections.abc import Iterator

from archcli.graph import OpClass, Row
from archcli.measure.passes import Pass
from archcli.measure.profile.reports.compiled import compiled_notes
from archcli.modules.spec.trace import LOSS
from archcli.recording.classes import FUSED
from archcli.recording.recording import Recording


def notes_of(counted: Pass, recording: Recording) -> Iterator[str]:
    """How to read the figures of a pass."""
    yield from compiled_notes(counted, recording)
    yield from _on_fusion(counted, recording)
    yield from _on_training(counted)
    if recording.reached:
        least, most = min(recording.reached.values()), max(recording.reached.values())
        yield (
            "Bytes of routed experts are of those that the tokens of this run went to: "
            f"{least} to {most} of a layer's."
        )
    yield "Weights are random."


def _on_fusion(counted: Pass, recording: Recording) -> Iterator[str]:
    if any(timed.op_class == FUSED for timed in recording.timed):
        where = "" if recording.compiled is None else ", where the compiler leaves them so"
        yield (
            "Fused attention is one kernel of products and softmax: a class of its own, FLOPs and bytes "
            f"included. --attention eager runs and times them apart{where}."
        )
    elementwise = {timed.path for timed in recording.timed if timed.op_class == OpClass.ELEMENTWISE}
    if any(row.path in elementwise and _changes_scores(row) for row in counted.rows):
        yield (
            "Scaling and masking of scores cannot be told from their softcap or bias and are timed with it, "
            "as element-wise."
        )
    if any(_adds_bias_to_product(row) for row in counted.rows):
        yield (
            "A linear layer adds its bias within the product's kernel: all its time is of matrix products, "
            "the bias's FLOPs are element-wise."
        )


def _changes_scores(row: Row) -> bool:
    """Whether a row is attention with element-wise parts: a softcap, ALiBi, a bias, or ReLU."""
    has_scores = row.op.component == "attention_scores"
    return has_scores and any(part.op_class is OpClass.ELEMENTWISE for part in row.parts)


def _adds_bias_to_product(row: Row) -> bool:
    return "bias" in row.weights and any(part.op_class is OpClass.CONTRACTION for part in row.parts)


def _on_training(counted: Pass) -> Iterator[str]:
    if counted.phase != "train":
        return
    if any(row.group == LOSS for row in counted.rows):
        yield "Training is forward to the loss of random targets, and backward: no optimizer."
    else:
        yield "Training is forward and backward from a given gradient of the answer: no loss, no optimizer."
