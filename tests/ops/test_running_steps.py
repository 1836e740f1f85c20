"""Bytes alive at once in operations of several steps, in inference: exact of a CPU's and a GPU's kernels."""

from contextlib import ExitStack

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from archcli.graph.kept import Call, Execution
from archcli.modules.positions.position import Rope
from archcli.ops import (
    Activate,
    ActivateSwish,
    ActivateXIELU,
    Combine,
    Dispatch,
    GatedResidual,
    Normalize,
    QueryTemperature,
    RotaryTable,
    Rotate,
    Route,
    Scale,
    ScaleParts,
    Softcap,
)
from archcli.wings.running.runtime.dtypes import DTYPES
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.running.runtime.memory.peak import LiveStorages
from archcli.wings.serving.launches.memory.op_reader import OpReader
from table import every_row

X, HEADS = (2, 5, 12), (2, 5, 4, 8)
COPIES = ((30, 8), (2, 5, 3), (30,))
OPS = {
    **{f: (Activate("y", f), [X]) for f in ("relu", "relu2", "silu", "log_sigmoid")},
    "swish": (ActivateSwish("y", 1.7), [X]),
    "swish-learnt": (ActivateSwish("y", 1.7, learnt=True), [X]),
    "xielu": (ActivateXIELU("y", 0.5, 1e-6), [X]),
    "scale": (Scale("y", 3.0), [X]),
    "scale-parts": (ScaleParts("y", (4, 8), (2.0, 3.0)), [X]),
    "softcap": (Softcap("y", 30.0), [X]),
    **{
        f"{'layer' if centred else 'rms'}-{offset:g}{'-plain' * (not weight)}{'-bias' * bias}": (
            Normalize("y", 1e-5, centred, weight, bias, offset),
            [X],
        )
        for centred in (False, True)
        for offset, weight, bias in ((0.0, True, False), (1.0, True, centred), (0.0, False, False))
    },
    "rms-by-head": (Normalize("y", 1e-5, axes=2), [HEADS]),
    "rms-in-groups": (Normalize("y", 1e-5, groups=3), [X]),
    "layer-by-head": (Normalize("y", 1e-5, centred=True, axes=2), [HEADS]),
    **{
        f"rotate-{pairing}-{width}{'-last' * last}": (
            Rotate("y", pairing, last),
            [HEADS, (5, width), (5, width)],
        )
        for pairing in ("half", "interleaved")
        for width, last in ((4, False), (2, False), (2, True))
    },
    "table": (RotaryTable("y", 8, Rope()), [(5,), X]),
    "table-fp32": (RotaryTable("y", 8, Rope()), [(5,)]),
    "table-times": (RotaryTable("y", 8, Rope(), 1.3), [(5,), X]),
    **{
        f"route-{scores}-{scale:g}{'-as-is' * (not normalized)}{'-corrected' * correction}": (
            Route("y", 3, scores, normalized, scale, correction),
            [X],
        )
        for scores in ("softmax", "sigmoid", "softmax_after")
        for normalized, scale, correction in (
            (True, 1.0, False),
            (False, 1.0, False),
            (True, 2.5, True),
            (False, 2.5, True),
        )
    },
    **{
        f"temper{'-power' * power}{'-above' * above}": (
            QueryTemperature("y", 0.1, 4, power=power, above=above),
            [HEADS, (5,)],
        )
        for power, above in ((False, False), (True, False), (False, True))
    },
    "gated-residual": (GatedResidual("y", 0.3, 1e-3), [X, X]),
    "dispatch": (Dispatch("y"), [X, (2, 5, 3)]),
    "combine": (Combine("y"), COPIES),
    "combine-unweighted": (Combine("y", weighted=False), COPIES),
}
WHOLE = {("dispatch", 1), *((name, 2) for name in OPS if name.startswith("combine"))}
"""Inputs that are whole numbers, beside the positions of a table."""


def running(name, setting):
    """(ours, torch's) bytes alive at once, less those of the outputs."""
    op, shapes = OPS[name]
    dtype = DTYPES[setting.dtype]
    with ExitStack() as stack:
        if setting.device == "cpu":
            stack.enter_context(FakeTensorMode())
        stack.enter_context(setting.operators())
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.device(setting.device))
        whole = [(name, i) in WHOLE or len(shape) == 1 for i, shape in enumerate(shapes)]
        inputs = [
            torch.zeros(shape, dtype=torch.int64 if ids else dtype)
            for shape, ids in zip(shapes, whole, strict=True)
        ]
        owned = {**op.weights(*shapes), **op.buffers(*shapes)}
        weights = {key: torch.zeros(shape, dtype=dtype) for key, shape in owned.items()}
        with LiveStorages([*inputs, *weights.values()]) as live:
            out = op.run_fused(torch, weights, *inputs)
            theirs = live.peak.bytes - live.now
            del out
    execution = Execution(setting.backend, True, dtype.itemsize, records=False)
    call = Call(execution, (False,) * len(inputs), tuple(x.element_size() for x in inputs), trained=False)
    ours = op.space(call, *shapes).running
    return (OpReader()(op, call, shapes, alive=True).running if ours is None else ours), theirs


@pytest.mark.long
@every_row("backend", ["cpu", "cuda"])
@every_row("dtype", ["bf16", "fp32"])
@every_row("name", OPS)
def test_bytes_alive_while_its_steps_run(name, dtype, backend):
    ours, theirs = running(name, WitnessSetting(dtype, backend=backend))
    if name == "scale" and backend == "cuda":
        theirs += DTYPES[dtype].itemsize  # a constant made on meta passes no dispatch mode
    assert ours == theirs
