"""Bytes alive at once in an operation without a gradient, beside its inputs and outputs: exact of these."""

import pytest
import torch

from archcli.graph.kept import Call, Execution
from archcli.ops import (
    AverageHeads,
    BlockDiagonal,
    BoundedLogDecay,
    CausalConv1d,
    ConvPair,
    DiagonalScan,
    FeatureMap,
    GatedDecay,
    HeadSkip,
    Interpolate,
    L2Normalize,
    LogDecay,
    StateScan,
    StepSize,
    TokenShift,
)
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.serving.launches.memory.op_reader import OpReader
from table import every_row

OPS = {
    "conv": (CausalConv1d("op", 4, False), [(2, 5, 6)]),
    "conv-filling": (CausalConv1d("op", 4, True), [(2, 5, 6)]),
    "conv-cached": (CausalConv1d("op", 4, True), [(2, 5, 6), (2, 4, 6)]),
    "pair": (ConvPair("op", 3, 2, 2, False), [(2, 5, 8)]),
    "pair-filling": (ConvPair("op", 3, 2, 2, True), [(2, 5, 8)]),
    "pair-cached": (ConvPair("op", 3, 2, 2, True), [(2, 5, 8), (2, 3, 8)]),
    "average": (AverageHeads("op"), [(2, 5, 4, 8), (2, 5, 2, 8)]),
    "step": (StepSize("op"), [(2, 5, 4)]),
    "step-limited": (StepSize("op", (0.1, None)), [(2, 5, 4)]),
    "skip": (HeadSkip("op"), [(2, 5, 4, 3), (2, 5, 4, 3)]),
    "decay": (LogDecay("op"), [(2, 5, 4)]),
    "decay-by-channel": (LogDecay("op"), [(2, 5, 4, 3)]),
    "bounded": (BoundedLogDecay("op", -5.0), [(2, 5, 4, 3)]),
    "length": (L2Normalize("op"), [(2, 5, 4, 3)]),
    "length-of-one": (L2Normalize("op"), [(2, 5, 4, 1)]),
    "shift": (TokenShift("op", False), [(2, 5, 8)]),
    "shift-cached": (TokenShift("op", True), [(2, 5, 8), (2, 8)]),
    "mix": (Interpolate("op"), [(2, 5, 8), (2, 5, 8)]),
    "blocks": (BlockDiagonal("op", 2, 6), [(2, 5, 8)]),
    "blocks-biased": (BlockDiagonal("op", 2, 6, bias=True), [(2, 5, 8)]),
    "gated": (GatedDecay("op"), [(2, 5, 8), (2, 5, 8), (5,)]),
    "diagonal": (DiagonalScan("op", "auto", False), [(2, 70, 8), (2, 70, 8)]),
    **{
        f"state-{b}-{t}-{g}-{h}{'-filling' * keep}": (
            StateScan("op", 16, "auto", bool(keep)),
            [(b, t, g, 5), (b, t, g, 5), (b, t, h, 7), (b, t, h)],
        )
        for keep, b, t, g, h in (
            (0, 1, 40, 1, 4),
            (1, 2, 40, 2, 4),
            (0, 2, 32, 3, 3),
            (1, 1, 9, 1, 1),
            (0, 3, 7, 1, 2),
        )
    },
    **{
        f"state-{b}-{g}-{h}-decoding": (
            StateScan("op", 16, "auto", True),
            [(b, 1, g, 5), (b, 1, g, 5), (b, 1, h, 7), (b, 1, h), (b, h, 5, 7)],
        )
        for b, g, h in ((1, 1, 4), (2, 2, 4), (2, 3, 3))
    },
    "elu": (FeatureMap("op", "elu", 4, True), [(2, 5, 4, 8)]),
    "features-few": (FeatureMap("op", "softmax", 4, True), [(2, 5, 4, 8)]),
    "features-many": (FeatureMap("op", "softmax", 40, True), [(2, 5, 4, 8)]),
}
IN_FP32 = {DiagonalScan: (0,), StateScan: (3, 4)}
"""Inputs that are in fp32 always: decays and states."""


def running_of(op, shapes, dtype):
    """The most bytes at once, less those of the outputs."""
    dtypes = [torch.int64 if len(shape) == 1 else dtype for shape in shapes]
    for i in IN_FP32.get(type(op), ()):
        dtypes[i : i + 1] = [torch.float32] * len(dtypes[i : i + 1])
    with torch.device("meta"), torch.no_grad():
        inputs = [torch.zeros(shape, dtype=one) for shape, one in zip(shapes, dtypes, strict=True)]
        owned = {**op.weights(*shapes), **op.buffers(*shapes)}
        weights = {name: torch.zeros(shape, dtype=dtype) for name, shape in owned.items()}
        with LiveStorages([*inputs, *weights.values()]) as live:
            out = op.run(torch, weights, *inputs)
            running = live.peak.bytes - live.now  # while the outputs are alive
            del out
    return running


def stated_or_read(op, shapes, dtype):
    """What archcli says of the same run."""
    if not op.follows_run:
        return op.workspace(dtype.itemsize, *shapes).running
    execution = Execution(width=dtype.itemsize, records=False)
    widths = tuple(8 if len(shape) == 1 else dtype.itemsize for shape in shapes)
    call = Call(execution, (False,) * len(shapes), widths, trained=False)
    return OpReader()(op, call, shapes, alive=True).running


@pytest.mark.long
@every_row("dtype", [torch.bfloat16, torch.float32], ids=["bf16", "fp32"])
@every_row("name", OPS)
def test_running_bytes_are_those_alive_at_once(name, dtype):
    op, shapes = OPS[name]
    assert stated_or_read(op, shapes, dtype) == running_of(op, shapes, dtype)
