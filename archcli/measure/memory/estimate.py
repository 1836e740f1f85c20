"""Memory that a run of a pass needs, estimated from the rows before anything is allocated.

Weights, cache and gradients are exact; activations are an estimate that torch's own workspaces may exceed.
"""

from __future__ import annotations

from collections.abc import Sequence

from archcli.arith import prod, to_bytes
from archcli.errors import ArchError
from archcli.graph import Row, Workspace
from archcli.measure.passes import Pass
from archcli.modules.block import RESIDUAL

TORCH_BYTES = 400 * 2**20
"""torch itself, its threads, workspaces and tracer: what torch 2.13 took on Linux beside the rest."""


def memory_of(counted: Pass, dtype: str, attention: str) -> dict[str, int]:
    """Bytes by purpose (weights, gradients, activations, …), and `needed_bytes` in total.

    gradients: of all weights that train, and of the largest once more, which is whole before it is added to
    that of a tied one.
    activations: of inference, the module whose tensors take most, beside the residual stream; of training,
    every operation's outputs, which wait for the backward, and the largest one's gradients. What an operation
    makes besides its outputs, such as eager attention's T x S scores, is added to either.
    cache: before the pass and after it; a source's keys and values are the same in both.
    """
    train = counted.phase == "train"
    weights = to_bytes(counted.params(), dtype)
    parts = {
        "weights_bytes": weights,
        "gradients_bytes": _gradients(counted, dtype) if train else 0,
        "activations_bytes": (_waiting if train else _largest)(counted, to_bytes(1, dtype), attention),
        "cache_bytes": to_bytes(2 * counted.cached() + counted.cross_cached(), dtype),
        "torch_bytes": TORCH_BYTES,
    }
    return {**parts, "needed_bytes": sum(parts.values())}


def require_memory(name: str, memory: dict[str, int], available: int | None, dtype: str) -> None:
    """Raise ArchError where a run needs more memory than `available`; None is unknown."""
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


def _largest(counted: Pass, width: int, attention: str) -> int:
    """Peak bytes of one module's tensors, with its input and the residual stream.

    What a module's forward makes lives until it returns.
    """
    modules: dict[str, list[Row]] = {}
    for row in counted.rows:
        modules.setdefault(row.path.rpartition(".")[0], []).append(row)
    stream = max((_outputs(row) for row in counted.rows if row.op.name.endswith(RESIDUAL)), default=0)
    live: int = max(_live_bytes(rows, width, attention) for rows in modules.values())
    return width * stream + live


def _live_bytes(rows: Sequence[Row], width: int, attention: str) -> int:
    running: int = max(_workspace(row, width, attention).running for row in rows)
    return width * (int(prod(rows[0].inputs[0])) + sum(map(_outputs, rows))) + running


def _waiting(counted: Pass, width: int, attention: str) -> int:
    """Bytes kept for the backward: all outputs, other saved tensors, and the largest workspace."""
    rows = [(row, _workspace(row, width, attention), int(row.times)) for row in counted.rows]
    saved: int = sum((width * _outputs(row) + space.saved) * times for row, space, times in rows)
    largest = max((_outputs(row) for row in counted.rows), default=0)
    working: int = max((max(space.running, space.backward) for _, space, _ in rows), default=0)
    return saved + 2 * width * largest + working


def _gradients(counted: Pass, dtype: str) -> int:
    trained = [row for row in counted.rows if row.trained]
    stacked = [row.unit_params * (row.experts.n_experts if row.experts else 1) for row in trained]
    return int(to_bytes(sum(row.params for row in trained), dtype) + to_bytes(max(stacked, default=0), dtype))


def _workspace(row: Row, width: int, attention: str) -> Workspace:
    of = row.op.workspace if attention == "eager" else row.op.fused_workspace
    return Workspace(*map(int, of(width, *row.inputs)))


def _outputs(row: Row) -> int:
    """Elements that a row writes; none for a view."""
    return sum(int(prod(shape)) for shape in row.outputs) if row.parts else 0
