"""Compare memory traced by archcli with torch's: kept bytes by row, and peaks of passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from archcli.modules import Model
from archcli.modules.models.layers import folded_path
from archcli.modules.spec.request import Request
from archcli.wings.running.runtime.memory.kept import kept_of_model
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.running.runtime.memory.peak import inference_peak, training_step_peak
from archcli.wings.running.runtime.verify.result import ReferenceResult, compare_entries

OPERATORS = {"cuda": "autograd, CUDA's operators", "cpu": "autograd, a CPU's operators"}
LIVE = "live storages, a CPU's operators"
TRAINING_BOUND = 1024
"""The largest difference of the peaks of a training step, in bytes."""
INFERENCE_SHARE = 100
"""The peaks of an inference pass may differ by 1/100."""


def verify_kept(
    spec: Model, request: Request, setting: WitnessSetting, ours: Mapping[str, int]
) -> Iterator[ReferenceResult]:
    """Compare kept bytes with those that autograd saves: in total, and by row over all layers of a stack."""
    sizes = (int(request.batch_size), int(request.seq_len))
    kept = kept_of_model(spec, *sizes, setting, source_len=request.source_len)
    theirs: Counter[str] = Counter()
    for path, size in kept.bytes_by_op().items():
        theirs[folded_path(path)] += size
    reference = OPERATORS[setting.backend]
    yield ReferenceResult(reference, "kept for the backward, bytes", sum(ours.values()), sum(theirs.values()))
    # a row that keeps nothing has no entry among ours
    theirs = Counter({path: size for path, size in theirs.items() if size})
    yield from compare_entries(reference, "kept by row, rows", ours, theirs, str)


def verify_peak(spec: Model, request: Request, setting: WitnessSetting, ours: int) -> ReferenceResult:
    """Compare the peak beyond the weights with that of live storages in torch."""
    if request.phase == "train":
        batch_size, seq_len = int(request.batch_size), int(request.seq_len)
        peak = training_step_peak(spec, batch_size, seq_len, setting=setting, source_len=request.source_len)
        bound, what = TRAINING_BOUND, "peak of a training step beyond the weights, bytes"
    else:
        peak = inference_peak(spec, request, setting=setting)
        bound, what = peak.bytes // INFERENCE_SHARE, f"peak of a {request.phase} beyond the weights, bytes"
    where = "" if abs(ours - peak.bytes) <= bound else f"{peak.moment} {peak.path}".strip()
    return ReferenceResult(LIVE, what, ours, peak.bytes, where, bound)
