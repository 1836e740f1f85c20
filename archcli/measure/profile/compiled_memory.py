"""Memory of a compiled pass, from that of the same pass uncompiled."""

from __future__ import annotations

from archcli.arith import prod, to_bytes
from archcli.measure.passes import Pass


def compiled_memory(memory: dict[str, int], counted: Pass, dtype: str) -> dict[str, int]:
    """The memory of a pass, changed for torch.compile."""
    if counted.phase != "train":
        return memory
    # compiled code first makes the gradient of an expert's matrix for every token, then adds them up
    copies = (prod(row.inputs[0][:-1]) * row.unit_params for row in counted.rows if row.experts is not None)
    more = int(to_bytes(max(copies, default=0), dtype))
    return memory | {key: memory[key] + more for key in ("gradients_bytes", "needed_bytes")}
