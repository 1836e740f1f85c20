"""Memory that a run of a pass needs, estimated from the rows before anything is allocated.

Weights, cache and gradients are exact; activations are an estimate that torch's own workspaces may exceed.
"""

from __future__ import annotations

from collections.abc import Sequence

from archcli.arith import Shape, prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import OpClass, Row
from archcli.measure.passes import Pass
from archcli.ops import Add, Attend, Linear

SOFTMAX_BYTES = 4  # eager attention computes its softmax in fp32, whatever the dtype
TORCH_BYTES = (
    400 * 2**20
)  # torch itself, its threads, workspaces and tracer: what torch 2.13 took on Linux beside the rest


def memory_of(counted: Pass, dtype: str, attention: str) -> dict[str, int]:
    """Bytes by what they are for, and `needed_bytes` in total.

    gradients: of all weights that train, and of the largest once more, which is whole before it is added to that of a
    tied one.
    activations: of inference, the largest operation's inputs and outputs beside the residual stream; of training, every
    operation's outputs, which wait for the backward, and the largest one's gradients. Eager attention adds its T x S
    scores. cache: before the pass and after it; a source's keys and values are the same in both.
    """
    train = counted.phase == "train"
    weights = to_bytes(counted.params(), dtype)
    parts = {
        "weights_bytes": weights,
        "gradients_bytes": _gradients(counted, dtype) if train else 0,
        "activations_bytes": (_waiting if train else _largest)(counted, dtype, attention),
        "cache_bytes": to_bytes(2 * counted.cached() + counted.cross_cached(), dtype),
        "torch_bytes": TORCH_BYTES,
    }
    return {**parts, "needed_bytes": sum(parts.values())}


def require_memory(name: str, memory: dict[str, int], available: int | None, dtype: str) -> None:
    """Raises ArchError with the figures where a run needs more than is available; None means that nobody knows."""
    needed, weights = memory["needed_bytes"], memory["weights_bytes"]
    if available is None or needed <= available:
        return
    if weights > available:
        what, hint = f"{_gib(weights)} of weights", "a smaller preset or --set n_layers=…"
    else:
        listed = {
            part.removesuffix("_bytes"): size
            for part, size in memory.items()
            if part not in {"needed_bytes", "torch_bytes"}
        }
        rest = ", ".join(f"{_gib(size)} {part}" for part, size in listed.items() if size)
        what, hint = (
            f"about {_gib(needed)} ({rest})",
            "a shorter --seq-len, a smaller --batch-size or --set n_layers=…",
        )
    narrower = "" if to_bytes(1, dtype) <= 2 else "--dtype bf16, "  # noqa: PLR2004
    raise ArchError(
        f"{name} in {dtype} needs {what}; this machine has {_gib(available)} available",
        f"try {narrower}{hint}",
    )


def _gib(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB"


def _largest(counted: Pass, dtype: str, attention: str) -> int:
    """The most that one operation holds, and the residual stream that waits beside it, as large as what is added to it."""
    each = [_elements(row.outputs) + _elements(_activations(row)) for row in counted.rows if row.parts]
    stream = max((_elements(row.outputs) for row in counted.rows if isinstance(row.op, Add)), default=0)
    scores = max((_scores(row, attention) for row in counted.rows), default=0)
    return int(to_bytes(max(each, default=0) + stream, dtype)) + scores


def _waiting(counted: Pass, dtype: str, attention: str) -> int:
    each = [(_elements(row.outputs), int(row.times)) for row in counted.rows if row.parts]
    largest = max((size for size, _ in each), default=0)
    scores = sum(_scores(row, attention) * int(row.times) for row in counted.rows)
    return int(to_bytes(sum(size * times for size, times in each) + 2 * largest, dtype)) + scores


def _gradients(counted: Pass, dtype: str) -> int:
    trained = [row for row in counted.rows if row.trained]
    stacked = [row.unit_params * (row.experts.n_experts if row.experts else 1) for row in trained]
    return int(to_bytes(sum(row.params for row in trained), dtype) + to_bytes(max(stacked, default=0), dtype))


def _activations(row: Row) -> Sequence[Shape]:
    """The inputs that are no weights: a tied head's second input is one."""
    return row.inputs[:1] if isinstance(row.op, Linear) else row.inputs


def _scores(row: Row, attention: str) -> int:
    """Bytes of attention's scores and probabilities, where they are stored at all."""
    if not isinstance(row.op, Attend) or (attention != "eager" and row.op.is_one_kernel(*row.inputs)):
        return 0
    written = [
        part.written for part in row.parts if part.op_class is not OpClass.CONTRACTION and not part.training
    ]
    return 2 * SOFTMAX_BYTES * int(max(written, default=0))


def _elements(shapes: Sequence[Shape]) -> int:
    return sum(int(prod(shape)) for shape in shapes)
