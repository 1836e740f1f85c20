"""The stand-in for torch that an operation's `run` is given: functions on tensors without values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from archcli.wings.serving.launches import functions  # noqa: F401 registers what torch has
from archcli.wings.serving.launches.dtypes import NAMED
from archcli.wings.serving.launches.tensor import FUNCTIONS, ShapeTensor, UnknownFunctionError

NAMESPACES = {"fft", "functional", "linalg", "nn", "special"}
LIMITS = SimpleNamespace(min=-3e38, max=3e38, eps=1e-7, tiny=1e-38)
"""Limits of every number type: any will do, as no kernel depends on them."""


class TorchLike:
    """torch and its namespaces at once: every function by its name."""

    Tensor = ShapeTensor
    contiguous_format = "contiguous"
    preserve_format = "preserve"
    compiler = SimpleNamespace(is_compiling=lambda: False)
    jit = SimpleNamespace(is_tracing=lambda: False)

    @staticmethod
    def finfo(dtype: Any) -> Any:  # noqa: ARG004
        """Limits of a number type."""
        return LIMITS

    def __init__(self) -> None:
        vars(self).update({**NAMED, **FUNCTIONS, **dict.fromkeys(NAMESPACES, self)})

    def __getattr__(self, name: str) -> Any:
        raise UnknownFunctionError(f"kernels of torch.{name} are not known")


TORCH = TorchLike()
