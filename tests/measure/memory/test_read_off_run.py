"""What an operation states of its memory, beside what is read off its `run`, kind by kind of all presets."""

from collections import Counter

import pytest

from archcli.graph.kept import Execution, New, OfMixture
from archcli.graph.memory_tape import MemoryTape
from archcli.load.presets import presets
from archcli.load.source import load
from archcli.measure.memory.traced import trace_memory
from archcli.modules.spec.request import Request

EXECUTIONS = [Execution(backend, fused) for backend in ("cuda", "cpu") for fused in (True, False)]


@pytest.fixture
def calls(monkeypatch):
    """Every call of an operation that a gradient flows through, once: what it is of, and what is read."""
    seen, record = {}, MemoryTape._record

    def recording(self, op, call, xs, row, run):
        seen.setdefault((repr(op), call, *row.inputs), (op, call, row.inputs, run.kept))
        return record(self, op, call, xs, row, run)

    monkeypatch.setattr(MemoryTape, "_record", recording)
    return seen


def as_bytes(kept):
    """What is kept: the bytes of all tensors of the operation's own, and all others by reference."""
    own = sum(x.elements * x.width * x.count for x in kept if isinstance(x, New))
    return own, {x.name if isinstance(x, OfMixture) else x for x in kept if not isinstance(x, New)}


@pytest.mark.sample(20)
@pytest.mark.parametrize("name", presets())
def test_statements_are_what_is_read(name, calls):
    model = load(name).model
    for execution in EXECUTIONS:
        trace_memory(model, Request("train", 2, 128), execution)
    compared = [
        (op, as_bytes(op.kept(call, *shapes)), as_bytes(kept)) for op, call, shapes, kept in calls.values()
    ]
    assert not Counter(type(op).__name__ for op, stated, read in compared if stated != read)
