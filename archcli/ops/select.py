"""Ops that depend on a batch's targets: the tokens of one cluster of the vocabulary.

How many tokens fall into a cluster is data. Counting takes the share that the architecture states, as an
exact fraction; running takes those that do.

N tokens B*T, n those of a cluster, D width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, prod, share_of
from archcli.errors import ArchError
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import BOOL, INT64, Call, In, Kept, New, Out
from archcli.ops.base import WHOLE_NUMBERS, has_no_values, movement


@dataclass(frozen=True, slots=True, eq=False)
class ClusterIndex(Op):
    """Targets to entries of an adaptive softmax's head.

    Targets below the first cutoff stay as they are; then one entry stands for each cluster.
    """

    name: str
    cutoffs: tuple[int, ...]
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def shape(self, targets: Shape) -> Shape:
        return targets

    def parts(self, targets: Shape) -> tuple[Part, ...]:
        return ()

    def run(self, torch: Any, weights: dict[str, Any], targets: Any) -> Any:
        first = self.cutoffs[0]
        cluster = sum((targets >= cutoff).to(targets.dtype) for cutoff in self.cutoffs)
        return torch.where(targets < first, targets, first - 1 + cluster)


@dataclass(frozen=True, slots=True, eq=False)
class Select(Op):
    """The tokens whose target lies in [low, high), and their positions.

    x [..., D] and targets [...] to x [n, D], target - low [n], places [n]. Counted, n is the stated share of
    all tokens, an exact fraction. On the meta device, where no target has a value, the first N * share tokens
    stand for them.
    """

    name: str
    low: Number
    high: Number
    share: float
    expected: ClassVar[str] = (
        "The head's cost depends on the targets: figures are expected values by cluster_shares, exact "
        "fractions, each rounded to a whole number once, at the end."
    )

    def shape(self, x: Shape, targets: Shape) -> tuple[Shape, Shape, Shape]:
        n = share_of(prod(targets), self.share)
        return (n, x[-1]), (n,), (n,)

    def parts(self, x: Shape, targets: Shape) -> tuple[Part, ...]:
        n = share_of(prod(targets), self.share)
        moved = n * x[-1]
        gradient = Part("d_0", OpClass.MOVEMENT, 0, moved + n, moved, wrt=0)
        return (Part("select", OpClass.MOVEMENT, 0, prod(targets) + moved, moved + 2 * n, (gradient,)),)

    def kept(self, call: Call, x: Shape, targets: Shape) -> tuple[Kept, ...]:
        return (Out(2),)

    def widths(self, call: Call, x: Shape, targets: Shape) -> tuple[Number, ...]:
        return (call.widths[0], INT64, INT64)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, targets: Any) -> Any:
        flat = targets.flatten()
        if has_no_values(flat):
            place = torch.arange(self._on_meta(flat.numel()), device=flat.device)
        else:
            place = ((flat >= self.low) & (flat < self.high)).nonzero().squeeze(1)
        return x.flatten(0, -2)[place], flat[place] - self.low, place

    def _on_meta(self, tokens: int) -> int:
        n = share_of(tokens, self.share)
        if not isinstance(n, int):
            raise ArchError(
                f"{self.name}: a share of {self.share} of {tokens} tokens is no whole number",
                "give as many as make it whole",
            )
        return n


@dataclass(frozen=True, slots=True, eq=False)
class ScatterAdd(Op):
    """y = x with values [n] added at indices [n] of the flattened x."""

    name: str

    def shape(self, x: Shape, values: Shape, place: Shape) -> Shape:
        return x

    def parts(self, x: Shape, values: Shape, place: Shape) -> tuple[Part, ...]:
        n = prod(values)
        gradient = Part("d_1", OpClass.MOVEMENT, 0, 2 * n, n, wrt=1)
        return (Part("add", OpClass.ELEMENTWISE, n, 3 * n, n, (gradient,)),)

    def kept(self, call: Call, x: Shape, values: Shape, place: Shape) -> tuple[Kept, ...]:
        return (In(2),) if call.grads[1] else ()

    def run(self, torch: Any, weights: dict[str, Any], x: Any, values: Any, place: Any) -> Any:
        return x.flatten().scatter_add(0, place, values).view(x.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Sample(Op):
    """`size` different ids of `entries`, equally likely, drawn anew by every run.

    The input says which tape it is on and nothing else.
    """

    name: str
    size: Number
    entries: Number
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def trained(self, grads: list[bool], anchor: Shape) -> bool:
        return False

    def shape(self, anchor: Shape) -> Shape:
        return (self.size,)

    def parts(self, anchor: Shape) -> tuple[Part, ...]:
        return ()

    def widths(self, call: Call, anchor: Shape) -> tuple[Number, ...]:
        return (INT64,)

    def run(self, torch: Any, weights: dict[str, Any], anchor: Any) -> Any:
        return torch.randperm(self.entries, device=anchor.device)[: self.size]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates(Op):
    """The target's logit joined with those of the samples.

    Target logits [...], sample logits [..., n], sample ids [n], targets [...] to [..., 1 + n]. A sample that
    is the target itself is struck out (-inf), so that no word stands twice.
    """

    name: str

    def shape(self, logit: Shape, logits: Shape, samples: Shape, targets: Shape) -> Shape:
        return (*logit, 1 + logits[-1])

    def parts(self, logit: Shape, logits: Shape, samples: Shape, targets: Shape) -> tuple[Part, ...]:
        n = prod(logit) + prod(logits)
        gradients = tuple(
            Part(f"d_{i}", OpClass.MOVEMENT, 0, m, m, wrt=i)
            for i, m in enumerate((prod(logit), prod(logits)))
        )
        part = movement("join", n + prod(samples) + prod(targets), n)
        return (Part(part.name, part.op_class, 0, part.read, part.written, gradients),)

    def kept(
        self, call: Call, logit: Shape, logits: Shape, samples: Shape, targets: Shape
    ) -> tuple[Kept, ...]:
        return (New(prod(logits), BOOL),) if call.grads[1] else ()

    def run(
        self, torch: Any, weights: dict[str, Any], logit: Any, logits: Any, samples: Any, targets: Any
    ) -> Any:
        others = logits.masked_fill(samples == targets.unsqueeze(-1), float("-inf"))
        return torch.cat([logit.unsqueeze(-1), others], dim=-1)
