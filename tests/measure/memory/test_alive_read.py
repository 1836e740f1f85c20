"""Bytes alive while an operation runs: what is stated by hand, beside what is read off its run, by kind."""

from collections import Counter
from contextlib import suppress

import pytest

from archcli.errors import ArchError
from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules.models.model import inferring
from archcli.modules.spec.request import Request
from archcli.wings.serving.launches.memory.op_reader import OpReader
from archcli.wings.serving.launches.memory.tape import MemoryTape
from archcli.wings.serving.memory.traced import trace_memory
from covering import COVERING

TRAINING = [Execution(backend, fused) for backend in ("cuda", "cpu") for fused in (True, False)]
INFERENCE = [Request("forward", 1, 256), Request("prefill", 2, 100)]
SCANS = {
    *("DeltaScan", "DiagonalScan", "GatedDecay", "LinearAttend", "MLSTMScan", "SelectiveScan", "StateScan"),
    "WKV",
}
WITHOUT_KEPT = {
    *("ActivateXIELU", "BoundedLogDecay", "L2Normalize", "LogDecay", "Normalize", "Route", "RouteByToken"),
    "StepSize",
}
"""Kinds whose statement leaves out, in training, what is kept until the backward."""
NOTHING_STATED = {
    *("Add", "AddToLater", "CollectHeads", "CombineReal", "DisentangledBias", "DispatchReal", "GatherLast"),
    *("GaussianTopK", "HeadDecay", "LentNormalize", "LogSumExp", "MatchMagnitude", "Mean", "RelativeBias"),
    *("ScaleChosen", "Sinusoid", "SpreadHeads", "SpreadStreams", "WithinTable", "BlockPositions"),
    *("CollapseStreams", "CompressTokens", "MixingGates", "StreamGates"),
}
OTHERS = {
    "CausalConv1d": "a step of one token with a cache: the window is joined before the oldest is dropped",
    "IndexTopK": "scores of the indexer: a bound",
    "Linear": "a product beside its bias, where a lent matrix or rows with gaps need two kernels",
    "RotaryTable": "of one token cosines and sines are alive beside their copies",
    "Scale": "the factor as a tensor of no axes",
}
DIFFER = SCANS | WITHOUT_KEPT | NOTHING_STATED | OTHERS.keys()


@pytest.fixture
def wrong(monkeypatch):
    """How many different calls of each kind are stated otherwise than read."""
    found, read, space = Counter(), OpReader(), MemoryTape._places

    def compared(self, op, memory, xs, row):
        call = self._call(op, xs, trained=row.trained and bool(row.weights))
        stated = op.space(call, *row.inputs).running
        if (
            not op.is_weight
            and stated is not None
            and stated != read(op, call, row.inputs, alive=True).running
        ):
            found[type(op).__name__] += 1
        return space(self, op, memory, xs, row)

    monkeypatch.setattr(MemoryTape, "_places", compared)
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COVERING)
def test_all_other_kinds_are_stated_as_they_run(name, wrong):
    model = load(name).model
    for execution in TRAINING:
        trace_memory(model, Request("train", 2, 128), execution)
    for request in INFERENCE:
        with suppress(ArchError):  # an encoder has no prefill
            trace_memory(inferring(model), request, Execution(records=False))
    assert wrong.keys() <= DIFFER
