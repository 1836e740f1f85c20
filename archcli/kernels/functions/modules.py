"""What torch's own modules launch where an operation has one that behaves differently in training."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

from archcli.kernels.dtypes import INT64
from archcli.kernels.functions.pointwise import dropout
from archcli.kernels.functions.statistics import batch_norm
from archcli.kernels.launching import launch

ModuleForward: TypeAlias = Callable[[dict[str, Any], Any, bool], Any]
"""A module's forward: of its weights, of x, and of whether it trains."""


def _dropout(p: float) -> ModuleForward:
    return lambda _, x, training: dropout(x, p, training)


def _token_batch_norm(channels: Any, **options: Any) -> ModuleForward:
    """BatchNorm over all axes but the last, whose running statistics move on in training."""

    def forward(weights: dict[str, Any], x: Any, training: bool) -> Any:
        if training:
            launch("add", [], (), INT64)  # one batch more is tracked
        names = ("running_mean", "running_var", "weight", "bias")
        return batch_norm(x.flatten(0, -2), *[weights[name] for name in names], training=training).view_as(x)

    return forward


MODULES = SimpleNamespace(Dropout=_dropout, TokenBatchNorm=_token_batch_norm)
"""The modules that an op's `leaf` chooses from, of those that need one."""
