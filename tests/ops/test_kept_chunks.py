"""What scans keep, for every number of tokens: full chunks, a short last one, a single token."""

from collections import Counter

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st

from archcli.graph.kept import Call, Execution, New
from archcli.ops import WKV, DeltaScan, DiagonalScan, MLSTMScan, SelectiveScan, StateScan
from archcli.wings.running.runtime.memory.kept import kept_by_op
from archcli.wings.running.runtime.memory.models import WitnessSetting
from archcli.wings.serving.launches.memory.op_reader import OpReader
from archcli.wings.shapes.symbolic.candidates import branches

torch.set_num_threads(1)
CHUNK = 8


def of_state(b, t, g, h):
    return StateScan("scan", CHUNK, "auto", False), (
        (b, t, g, 3),
        (b, t, g, 3),
        (b, t, g * h, 5),
        (b, t, g * h),
    )


def of_delta(b, t, g, h):
    keys, heads = (b, t, g, 3), (b, t, g * h)
    return DeltaScan("scan", CHUNK, "auto", False), (keys, keys, (*heads, 5), heads, heads)


def of_channels(b, t, g, h):
    keys, heads = (b, t, g * h, 3), (b, t, g * h)
    return DeltaScan("scan", CHUNK, "auto", False), (keys, keys, (*heads, 5), keys, heads)


def of_memory(b, t, g, h):
    keys, heads = (b, t, g * h, 3), (b, t, g * h)
    return MLSTMScan("scan", CHUNK, "auto", False), (keys, keys, (*heads, 5), heads, heads)


def selective(b, t, g, h):
    return SelectiveScan("scan", "auto", False), ((b, t, 3 * g), (b, t, 3 * g), (b, t, h), (b, t, h))


def headed(b, t, g, h):
    x, key = (b, t, g, 3), (b, t, g, h)
    return SelectiveScan("scan", "auto", False), (x, x, key, key)


def diagonal(b, t, g, h):
    return DiagonalScan("scan", "auto", False), ((b, t, g * h), (b, t, g * h))


def weighted(b, t, g, h):
    return WKV("scan", "auto", False), ((b, t, g * h), (b, t, g * h))


SCANS = (of_state, of_delta, of_channels, of_memory, selective, headed, diagonal, weighted)
sizes = st.tuples(*(st.integers(1, most) for most in (3, 150, 3, 3)))
every_scan = pytest.mark.parametrize("make", SCANS, ids=[make.__name__ for make in SCANS])


def call_of(shapes, width=2, grads=None):
    return Call(Execution("cuda", True, width), grads or (True,) * len(shapes), (width,) * len(shapes))


def read(op, call, shapes, values=None):
    """What is kept by reference, and the bytes of what is new."""
    kept = OpReader(values)(op, call, shapes).kept
    own = sum(x.bytes for x in kept if isinstance(x, New))
    return {type(x).__name__.lower() + str(x.which) for x in kept if not isinstance(x, New)}, own


def saved(op, shapes, setting, needs):
    """The same of torch's run."""
    found = kept_by_op(op, *shapes, setting=setting, needs=needs)
    own = Counter({"new": 0})
    for one in found:
        own[one.role] += one.bytes
    return {f"{one.role}{one.index}" for one in found if one.role != "new"}, own["new"]


@pytest.mark.long
@pytest.mark.sample(1)
@every_scan
@given(size=sizes, wide=st.booleans(), data=st.data())
def test_a_scan_keeps_what_autograd_saves(make, size, wide, data):
    op, shapes = make(*size)
    needs = data.draw(st.tuples(*[st.booleans()] * len(shapes)).filter(any))
    setting = WitnessSetting("fp32" if wide else "bf16")
    call = call_of(shapes, 4 if wide else 2, needs)
    assert read(op, call, shapes) == saved(op, shapes, setting, needs)


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@every_scan
@given(size=sizes.filter(lambda size: min(size) > 1))
def test_symbols_keep_the_same(make, size):
    op, shapes = make(*size)
    call = call_of(shapes)
    by_reference, own = read(op, call, shapes)
    values = dict(zip(sympy.symbols("b t g h", positive=True, integer=True), size, strict=True))
    op, shapes = make(*values)
    of_symbols, formula = read(op, call, shapes, values)
    assert of_symbols == by_reference
    assert int(formula.subs(values).doit()) == own


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@every_scan
@given(size=sizes, more=st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_arrays_keep_what_each_candidate_does(make, size, more):
    batch, tokens, groups, heads = size
    lengths = np.array([tokens, *(tokens + n for n in more)])

    def kept(numbers):
        op, shapes = make(batch, numbers["tokens"], groups, heads)
        return read(op, call_of(shapes), shapes)[1]

    for branch in branches({"tokens": lengths}, len(lengths), kept):
        for place, own in zip(branch.places, branch.array(branch.result), strict=True):
            assert own == kept({"tokens": int(lengths[place])})
