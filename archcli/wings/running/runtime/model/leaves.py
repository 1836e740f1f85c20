"""Leaves: the torch modules that own weights.

torch's own (nn.Linear, nn.LayerNorm, …) wherever one does the same; else the op on bare parameters.
"""

from __future__ import annotations

from itertools import cycle
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import nn

from archcli.graph import Op

HAS_GROUPED = hasattr(torch.nn.functional, "grouped_mm")
GROUPED = frozenset({torch.float32, torch.bfloat16, torch.float16})
"""Dtypes that torch's grouped_mm takes."""

ON_META = "grouped_on_meta"
"""The form of experts that uses grouped products on the meta device too."""

ALIGNED = 16
"""Alignment in bytes of rows and tensors that torch's grouped_mm requires."""


def leaf_of(op: Op, shapes: list[Any], n_experts: int | None) -> nn.Module | None:
    """The module that owns the op's weights and buffers, initialised; None for an op that needs none."""
    if not op.weights(*shapes) and not op.buffers(*shapes):
        return op.leaf(MODULES, *shapes) if op.needs_module else None
    if n_experts is not None:
        return (StackedLinear if op.grouped else StackedLeaf)(op, shapes, n_experts)
    return op.leaf(MODULES, *shapes) or Leaf(op, shapes)


class AdapterHolder(nn.Module):
    """Holds the adapter of an op that owns no weights itself, such as a tied head."""


class TokenBatchNorm(nn.BatchNorm1d):
    """BatchNorm of [B, T, …, D]: channels on the last axis, statistics over all others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize x, viewed as [tokens, D]."""
        # BatchNorm1d has its channels on axis 1, ours are on the last
        tokens = x.flatten(0, -2)
        if x.is_meta and tokens.shape[0] == 1:
            # torch refuses to train with one value per channel; a build on meta needs only the shape
            return torch.empty_like(x)
        return super().forward(tokens).view_as(x)


class ZeroLinear(nn.Linear):
    """A linear layer initialised with zeros."""

    def reset_parameters(self) -> None:
        for parameter in self.parameters(recurse=False):
            nn.init.zeros_(parameter)


MODULES = SimpleNamespace(
    Conv1d=nn.Conv1d,
    Conv2d=nn.Conv2d,
    Dropout=nn.Dropout,
    Embedding=nn.Embedding,
    LayerNorm=nn.LayerNorm,
    Linear=nn.Linear,
    RMSNorm=vars(nn).get("RMSNorm"),
    TokenBatchNorm=TokenBatchNorm,
    ZeroLinear=ZeroLinear,
)
"""The modules that an op's `leaf` chooses from."""


class Assignment:
    """The expert of each token, in order; tokens per expert are counted once for all matrices."""

    def __init__(self, expert_of: torch.Tensor) -> None:
        self.expert_of = expert_of
        self._sizes: torch.Tensor | None = None
        self._ends: torch.Tensor | None = None

    def sizes(self, n_experts: int) -> torch.Tensor:
        """Numbers of tokens [E]."""
        if self._sizes is None and _is_shape_alone(self.expert_of):
            # bincount needs values
            self._sizes = self.expert_of.new_empty(n_experts)
        elif self._sizes is None:
            self._sizes = torch.bincount(self.expert_of, minlength=n_experts)
        return self._sizes

    def lengths(self, n_experts: int) -> list[int]:
        """Numbers of tokens as Python ints; evenly distributed if tensors have no values."""
        if _is_shape_alone(self.expert_of):
            tokens, more = divmod(len(self.expert_of), n_experts)
            return [tokens + (i < more) for i in range(n_experts)]
        lengths: list[int] = self.sizes(n_experts).tolist()
        return lengths

    def ends(self, n_experts: int) -> torch.Tensor:
        """Ends of the experts' tokens [E]."""
        if self._ends is None:
            # torch's grouped_mm takes offsets only in int32
            self._ends = self.sizes(n_experts).cumsum(0, dtype=torch.int32)
        return self._ends


def _is_shape_alone(x: torch.Tensor) -> bool:
    """Whether the tensor has no values: on meta, or a fake one of torch's."""
    return x.device.type == "meta" or torch._subclasses.fake_tensor.is_fake(x)


class Leaf(nn.Module):
    """An op with bare parameters."""

    def __init__(self, op: Op, shapes: list[Any], stack: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.op = op
        for name, shape in op.weights(*shapes).items():
            self.register_parameter(name, nn.Parameter(torch.empty(*stack, *shape)))
        for name, shape in op.buffers(*shapes).items():
            # zeros, not empty: an index is read before anything else could fill it
            whole = torch.zeros(*stack, *shape, dtype=torch.long) if name in op.whole_buffers else None
            self.register_buffer(name, torch.empty(*stack, *shape) if whole is None else whole)

    def reset_parameters(self) -> None:
        """Initialise every weight as its op specifies."""
        for name, parameter in self.named_parameters(recurse=False):
            value = self.op.initial(name)
            if value is None:
                nn.init.normal_(parameter, std=0.02)
            else:
                nn.init.constant_(parameter, value)
        for name, buffer in self.named_buffers(recurse=False):
            nn.init.constant_(buffer, 0 if name in self.op.whole_buffers else self.op.initial(name) or 0.0)

    def forward(self, *xs: torch.Tensor, op: Op | None = None) -> Any:
        """Run the op on these parameters, or `op` in its place, which may know the length of the pass."""
        return (op or self.op).run(torch, {**self._parameters, **self._buffers}, *xs)

    def extra_repr(self) -> str:
        """The op with its settings."""
        return repr(self.op)


class StackedLeaf(Leaf):
    """A small op inside routed experts: parameters [E, …], indexed by each token's expert."""

    def __init__(self, op: Op, shapes: list[Any], n_experts: int) -> None:
        super().__init__(op, shapes, (n_experts,))

    def forward(self, *xs: torch.Tensor, op: Op | None = None, routed: Assignment) -> Any:
        """Run the op, each row with the parameters of its expert."""
        weights = {
            name: value[routed.expert_of] for name, value in self._parameters.items() if value is not None
        }
        return (op or self.op).run(torch, weights, *xs)


class StackedLinear(Leaf):
    """E linear maps in one tensor [E, out, in]. Tokens come sorted by expert.

    Two forms with equal results. `gather` takes each token's matrix and multiplies in one batch: on meta,
    compiled, and under a counter of FLOPs. `grouped` multiplies each expert's tokens together, so that a
    matrix is read once: in torch's grouped product where that takes these tensors, else expert after expert,
    which reads the sizes back; `grouped_on_meta` is grouped on meta, too, to see what it keeps. Where fewer
    than E matrices are stored, expert e has matrix e modulo their number.
    """

    form = "grouped"

    def __init__(self, op: Op, shapes: list[Any], n_experts: int) -> None:
        super().__init__(op, shapes, (n_experts,))
        self.n_experts = n_experts

    def store(self, distinct: int) -> None:
        """Store only this many matrices, uninitialised."""
        weight = self.get_parameter("weight")
        self.weight = nn.Parameter(
            weight.new_empty(min(distinct, self.n_experts), *weight.shape[1:]), weight.requires_grad
        )

    def forward(self, x: torch.Tensor, *, op: Op | None = None, routed: Assignment) -> torch.Tensor:
        """[N k, in] to [N k, out]."""
        weight, bias = cast("torch.Tensor", self._parameters["weight"]), self._parameters.get("bias")
        eager = self.form == ON_META or (self.form == "grouped" and x.device.type != "meta")
        # numbers of tokens depend on data: a graph without breaks cannot hold them
        eager = eager and not torch.compiler.is_compiling()
        eager = eager and len(x) > 0  # zero experts may take all tokens
        y = _grouped(x, weight, routed, self.n_experts) if eager else _gathered(x, weight, routed.expert_of)
        return y if bias is None else y + bias[routed.expert_of]


def _gathered(x: torch.Tensor, weight: torch.Tensor, expert_of: torch.Tensor) -> torch.Tensor:
    return torch.bmm(weight[expert_of], x.unsqueeze(-1)).squeeze(-1)


def _grouped(x: torch.Tensor, weight: torch.Tensor, routed: Assignment, n_experts: int) -> torch.Tensor:
    if len(weight) == n_experts and _in_one_kernel(x, weight):
        # [E, out, in] -> [E, in, out]: a view, which the kernel takes without a copy
        y = torch.nn.functional.grouped_mm(x, weight.transpose(1, 2), offs=routed.ends(n_experts))
        if y.requires_grad:
            y.register_hook(_aligned)
        return y
    # strict=False, as cycle never ends
    pairs = zip(x.split(routed.lengths(n_experts)), cycle(weight), strict=False)
    return torch.cat([torch.nn.functional.linear(tokens, matrix) for tokens, matrix in pairs if len(tokens)])


def _aligned(gradient: torch.Tensor) -> torch.Tensor:
    """A gradient made contiguous and aligned, as the grouped product's backward requires."""
    fits = gradient.is_contiguous() and _begins_aligned(gradient)
    return gradient if fits else gradient.clone(memory_format=torch.contiguous_format)


def _begins_aligned(x: torch.Tensor) -> bool:
    """Whether the tensor begins at a multiple of ALIGNED; one without values has no address to ask for."""
    offset = x.storage_offset() * x.itemsize if _is_shape_alone(x) else x.data_ptr()
    return offset % ALIGNED == 0


def _in_one_kernel(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether torch's grouped product supports these tensors.

    It takes 16 and 32 bits, rows of whole 16 bytes, and GPUs of compute capability 8 and more.
    """
    if (
        not HAS_GROUPED
        or x.dtype not in GROUPED
        or not x.is_contiguous()
        or not _begins_aligned(x)
        or not _begins_aligned(weight)
    ):
        return False
    _, rows, columns = weight.shape
    # both: rows of x have `columns` elements, and those of the gradient that comes back `rows`
    if rows * x.itemsize % ALIGNED or columns * x.itemsize % ALIGNED:
        return False
    return x.device.type in {"cpu", "meta"} or (
        x.device.type == "cuda" and torch.cuda.get_device_capability(x.device) >= (8, 0)
    )
