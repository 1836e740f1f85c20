"""DoRA: a trained magnitude for each output of an adapted matrix. Liu et al. 2024, arXiv:2402.09353."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from archcli.arith import Number
from archcli.graph import Row, Tensor
from archcli.modules.spec.base import Conflict
from archcli.modules.spec.trace import ADAPTERS
from archcli.ops import Detach, Linear, Magnitude

MAGNITUDE = "lora_magnitude_vector"
"""The name that PEFT gives the magnitudes."""


def scaled(name: str, factor: Number, y: Tensor, low: Tensor, *weights: Tensor) -> Tensor:
    """m / |W + factor B A| (W x + factor B A x) + b of W x + b, B A x, the weights A, B, W, and b if any."""
    matrices = zip("AB", weights, strict=False)
    a, b = (Detach(f"{name}.lora_{side}_read")(matrix, group=ADAPTERS) for side, matrix in matrices)
    w, *bias = weights[2:]
    out: Tensor = Magnitude(f"{name}.{MAGNITUDE}", factor)(y, low, w, a, b, *bias, group=ADAPTERS)
    return out


def check_rows(adapted: Iterable[Row]) -> Iterator[Conflict]:
    """Conflict: the first operation with an adapter that has no matrix of its own for every token."""
    path = next((row.path for row in adapted if not _has_matrix(row)), None)
    if path is not None:
        what = f"dora is of matrices that read every token, and {path} is none"
        yield Conflict("lora-dora-target", "lora.dora", what, "leave it out of lora.targets, or dora out")


def _has_matrix(row: Row) -> bool:
    op: Any = row.op
    return isinstance(op, Linear) and not (op.borrowed or op.stored_bias or row.experts)
