"""Reading: what is counted of one model, or of many candidates at a time; each pass is traced once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from functools import cached_property
from typing import Any

from archcli.arith import Number, rounded
from archcli.graph import StateContent, StateKind
from archcli.measure.params import param_counts
from archcli.measure.passes import Pass, cache_pass, checked_pass, shape_pass
from archcli.measure.survey.columns import COLUMNS
from archcli.measure.survey.layers import Architecture, architecture_of
from archcli.modules import Model
from archcli.modules.spec.base import Spec, find
from archcli.modules.spec.request import Request


class Reading:
    """The passes of a model whose sizes may stand for many candidates, traced when they are asked for."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._passes: dict[str, Pass] = {}

    @cached_property
    def one_token(self) -> Pass:
        """A prefill of one token, without costs."""
        return shape_pass(self.model, Request("prefill", seq_len=1))

    @cached_property
    def architecture(self) -> Architecture:
        """The layers of the model and what a survey reads of them."""
        return architecture_of(self.model, self.one_token)

    @cached_property
    def params(self) -> Mapping[str, Number]:
        """The totals of `archcli params` that are numbers."""
        return param_counts(self.model, self.one_token.rows)[0]

    def column(self, key: str) -> Any:
        """A figure of `archcli survey`."""
        return COLUMNS[key].figure(self.architecture)

    def flops(self, request: Request, mask: str) -> tuple[Number, Number, Number]:
        """(FLOPs of matrix products, all others, new tokens) of a pass, as `archcli flops` counts them."""
        counted = self._pass(request)
        matmul, others = counted.flops(unmasked=mask == "dense")
        return rounded(matmul), rounded(others), counted.batch_size * counted.new

    def cached(self, request: Request, kinds: Container[StateKind]) -> Counter[StateContent]:
        """Cached elements by what they hold, after a prefill."""
        contents: Counter[StateContent] = Counter()
        for row in self._cache(request).rows:
            for state in row.states:
                if state.kind in kinds:
                    contents[state.holds] += row.times * state.elements
        return contents

    def _pass(self, request: Request) -> Pass:
        return self._known(f"flops {request}", lambda: checked_pass(self.model, request))

    def _cache(self, request: Request) -> Pass:
        return self._known(f"cache {request}", lambda: cache_pass(self.model, request))

    def _known(self, key: str, trace: Any) -> Pass:
        if key not in self._passes:
            self._passes[key] = trace()
        return self._passes[key]


def first_conflict(model: Model) -> str:
    """The code of the first contradiction between a model's values, for which YAML is refused; or nothing.

    Parts come before what they are part of, as the loader builds them.
    """
    specs = reversed([spec for _, spec in find(model, Spec)])
    conflicts = (conflict for spec in specs for conflict in spec.check())
    return next((conflict.code for conflict in conflicts), "")
