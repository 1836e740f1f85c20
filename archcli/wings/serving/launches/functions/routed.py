"""Kernels of torch's modules in training, and of routed experts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

from archcli.graph import Op
from archcli.graph.row import Experts
from archcli.wings.serving.launches.dtypes import INT64, NAMED
from archcli.wings.serving.launches.functions.indexing import bincount
from archcli.wings.serving.launches.functions.pieces import cat, split, without_axis
from archcli.wings.serving.launches.functions.pointwise import dropout
from archcli.wings.serving.launches.functions.products import bmm, linear
from archcli.wings.serving.launches.functions.reductions import batch_norm
from archcli.wings.serving.launches.functions.torch_like import TORCH
from archcli.wings.serving.launches.functions.views import contiguous_copy
from archcli.wings.serving.launches.kernel import StatedWork
from archcli.wings.serving.launches.launching import launch, needs_grad
from archcli.wings.serving.launches.tensor import ShapeTensor

ALIGNED = 16
"""Alignment, in bytes, that torch's grouped product asks of tensors and their rows."""
GROUPED = frozenset({"fp32", "bf16", "fp16"})
"""Number types that it takes."""


class TokenAssignment:
    """The expert of each token, in order of experts; their ends are computed once for all matrices."""

    def __init__(self, expert_of: ShapeTensor, n_experts: int, experts: Experts | None = None) -> None:
        self.expert_of, self.n_experts, self._experts = expert_of, n_experts, experts
        self._sizes: ShapeTensor | None = None
        self._ends: ShapeTensor | None = None

    def sizes(self) -> ShapeTensor:
        """The number of each expert's tokens [E]."""
        if self._sizes is None:
            self._sizes = bincount(self.expert_of, minlength=self.n_experts)
        return self._sizes

    def reached(self, assigned: int) -> float:
        """How many experts get one of these tokens at random; of an unknown router, as many as can."""
        if self._experts is None:
            return float(min(assigned, self.n_experts))
        return self._experts.reached(assigned)

    def lengths(self) -> list[int]:
        """The same numbers as ints, an even spread: which expert a token goes to is data, not shape."""
        self.sizes()
        share, more = divmod(self.expert_of.shape[0], self.n_experts)
        return [share + (i < more) for i in range(self.n_experts)]

    @property
    def made_ends(self) -> ShapeTensor | None:
        """Ends of the experts' tokens, where a product has asked for them."""
        return self._ends

    def ends(self) -> ShapeTensor:
        """The end of each expert's tokens [E], computed when it is first asked for."""
        if self._ends is None:
            self._ends = launch("cumsum", [self.sizes()], (self.n_experts,), NAMED["int32"])
        return self._ends


def run_stacked(op: Op, weights: dict[str, Any], values: list[Any], routed: TokenAssignment) -> Any:
    """Run an op of routed experts, whose weights are stacked [E, …]."""
    if not op.grouped:
        chosen = {name: weight[routed.expert_of] for name, weight in weights.items()}
        return op.run(TORCH, chosen, *values)
    weight = weights["weight"]
    x = values[0].to(weight.dtype)
    if not x.shape[0]:  # experts that compute nothing may take all tokens
        y = bmm(weight[routed.expert_of], x.unsqueeze(-1)).squeeze(-1)
    elif _in_one_kernel(x, weight):
        y = _grouped_product(x, weight, routed)
    else:
        matrices = without_axis(weight, 0, [(expert, 1) for expert in range(routed.n_experts)])
        pairs = zip(split(x, routed.lengths()), matrices, strict=True)
        y = cat([linear(tokens, matrix) for tokens, matrix in pairs if tokens.shape[0]])
    return y + weights["bias"][routed.expert_of] if "bias" in weights else y


def _in_one_kernel(x: Any, weight: Any) -> bool:
    """Whether torch's grouped product takes these, on a GPU of compute capability 8 or more."""
    rows_are_aligned = all(size * x.itemsize % ALIGNED == 0 for size in weight.shape[1:])
    return rows_are_aligned and x.dtype.name in GROUPED and x.is_contiguous() and _begins_aligned(x)


def _begins_aligned(x: Any) -> bool:
    return bool(x.offset * x.itemsize % ALIGNED == 0)


def _grouped_product(x: Any, weight: Any, routed: TokenAssignment) -> Any:
    """[N k, in] times each expert's matrix: [N k, out]; backward two more grouped products.

    It reads the matrices of the experts that tokens of x go to; a plan's rank has the tokens it received.
    """
    ends = routed.ends()
    reached = round(weight.bytes * routed.reached(x.shape[0]) / routed.n_experts)
    flops = 2 * x.numel() * weight.shape[1]

    def work(*read: Any) -> StatedWork:
        return StatedWork(flops, sum(reached if part is weight else part.bytes for part in read))

    def product(a: Any, b: Any, like: Any) -> Any:
        if not needs_grad(like):
            return None
        return launch("_grouped_mm", [a, b, ends], like.shape, x.dtype, work=work(a, b, ends))

    def backward(g: Any) -> tuple[Any, ...]:
        if not (g.is_contiguous() and _begins_aligned(g)):
            g = contiguous_copy(g)  # by a hook, before the product's own backward
        return product(g, weight, x), product(g, x, weight)

    shape = (x.shape[0], weight.shape[1])
    return launch(
        "_grouped_mm", [x, weight, ends], shape, x.dtype, backward=backward, work=work(x, weight, ends)
    )


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
"""The modules that the `leaf` of an op with `needs_module` chooses from."""
