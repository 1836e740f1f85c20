"""What the figures of a prediction leave out, a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.predict.rank.rank_times import RankTimes
from archcli.wings.serving.predict.rank.rows import PredictedRow
from archcli.wings.serving.predict.times import OF_ADAPTERS
from archcli.wings.serving.recorded.classes import TimeClass

OF_PEAKS = "What kernels reach of the device's peaks: no measurements of it are known."
OF_SINGLE_KERNELS = "Compiled kernels: the constants are those of kernels that a compiler did not fuse."
OF_LOOPS = "Compiled kernels: orders of loops, and kernels moved to save memory. No GPU's were compared."
OF_EXPERTS = "Compiled experts: a compiler fuses routing and experts otherwise, which is not modelled."
OF_SCANS = "Compiled scans: a compiler fuses what goes from token to token otherwise, which is not modelled."
OF_TOWERS = "Compiled towers: their kernels are taken as torch launches them one by one."
OF_FUSED = "Kernels that trainers fuse, as Megatron-LM and torch.compile do: --compile is nearer to them."
OF_CASTS = "Casts of weights by autocast, in each micro batch."
OF_CUTS = "Compiled stages: a kernel of two layers is one where stages are cut between them, too."
OF_FLEX = "FlexAttention: no time of it was measured; it has the constants of torch's other fused kernels."
OF_RECOMPUTED = "Compiled training: results that the backward computes again instead of reading them."


def of_compiled(rows: Iterable[PredictedRow], times: RankTimes, plan: Plan) -> Iterator[str]:
    """What the figures of a compiled pass leave out."""
    if times.device.has_constants(times.settings.dtype):
        yield OF_SINGLE_KERNELS
    yield OF_LOOPS
    if plan.pp > 1:
        yield OF_CUTS
    if any(row.op_class == TimeClass.ROUTING for row in rows):
        yield OF_EXPERTS
    if any(part.scans for row in times.rank.planned.rows for part in row.op.parts(*row.inputs)):
        yield OF_SCANS
    if times.settings.phase == "train":
        yield OF_RECOMPUTED


def not_modelled(rows: Iterable[PredictedRow], times: RankTimes) -> Iterator[str]:
    """What the figures leave out, a sentence each."""
    settings = times.settings
    if not times.device.has_constants(settings.dtype):
        yield OF_PEAKS
    else:
        at_limit = (row for row in rows if not row.seconds.is_calibrated)
        classes = dict.fromkeys(
            OF_ADAPTERS if row.kernel == OF_ADAPTERS else TimeClass(row.op_class).label for row in at_limit
        )
        if classes:
            yield f"Kernels without measurements, taken at the limit: {', '.join(classes)}."
        if any("flex_attention" in row.kernel for row in rows):
            yield OF_FLEX
    of_whole = times.host is not None or times.device.whole_runs is not None
    is_timed = of_whole or any(row.op_class == TimeClass.FRAMEWORK for row in rows)
    yield f"The host: {'' if is_timed else 'launches that the device waits for, '}tokenizing and sampling."
    if settings.phase == "train":
        if (
            settings.trainer is not None
            and settings.trainer.autocast
            and settings.trained_width > settings.width
        ):
            yield OF_CASTS
        yield "Reading data and writing checkpoints."
