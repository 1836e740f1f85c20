"""The stand-in for torch that an operation's `run` is given: functions on tensors without values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from archcli.kernels import functions  # noqa: F401 registers what torch has
from archcli.kernels.dtypes import NAMED
from archcli.kernels.tensor import FUNCTIONS, ShapeTensor, UnknownFunctionError

LOWEST = SimpleNamespace(min=-3e38, max=3e38, eps=1e-7, tiny=1e-38)


class TorchLike:
    """torch, torch.nn and torch.nn.functional at once: every function by its name."""

    Tensor = ShapeTensor
    contiguous_format = "contiguous"
    preserve_format = "preserve"
    compiler = SimpleNamespace(is_compiling=lambda: False)
    jit = SimpleNamespace(is_tracing=lambda: False)

    @property
    def nn(self) -> Any:
        """torch.nn."""
        return self

    @property
    def functional(self) -> Any:
        """torch.nn.functional."""
        return self

    @property
    def linalg(self) -> Any:
        """torch.linalg."""
        return self

    @staticmethod
    def finfo(dtype: Any) -> Any:  # noqa: ARG004
        """Limits of a number type."""
        return LOWEST

    def __getattr__(self, name: str) -> Any:
        if name in NAMED:
            return NAMED[name]
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        raise UnknownFunctionError(f"kernels of torch.{name} are not known")


TORCH = TorchLike()
