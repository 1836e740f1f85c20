"""Ops that depend on a batch's targets: two-level softmax, and the tokens of one cluster.

How many tokens fall into a cluster is data. Counting takes the share that the architecture states, as an
exact fraction; a run takes the tokens that do.

N tokens B*T, n those of a cluster, C classes, W words per class = ceil(V / C), V words, D width. Word w is
entry w % W of class w // W. What the last class lacks is computed and struck out (-inf).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, is_whole, prod, share_of
from archcli.errors import ArchError
from archcli.graph import Op, OpClass, Part
from archcli.ops.base import (
    LOG_SOFTMAX,
    LOG_SOFTMAX_BACKWARD,
    LOG_SOFTMAX_PER_ROW,
    WHOLE_NUMBERS,
    as_number,
    contraction,
    has_no_values,
    movement,
)


@dataclass(frozen=True, slots=True, eq=False)
class ClassOf(Op):
    """Targets [...] to their classes [...] and their indices within the class [...]."""

    name: str
    size: Number
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def shape(self, targets: Shape) -> tuple[Shape, Shape]:
        return targets, targets

    def run(self, torch: Any, weights: dict[str, Any], targets: Any) -> Any:
        return targets // self.size, targets % self.size


@dataclass(frozen=True, slots=True, eq=False)
class ClassLinear(Op):
    """Logits of the words of each token's class: x [..., D], class [...], table [V, D] to [..., W].

    Two forms with equal results: a batch of products with gathered matrices (compiled), and one product per
    class, which is fast but reads how many tokens each class has; on the meta device they are spread evenly.
    """

    name: str
    n_classes: Number

    def shape(self, x: Shape, class_of: Shape, table: Shape) -> Shape:
        return (*class_of, ceil_div(table[0], self.n_classes))

    def parts(self, x: Shape, class_of: Shape, table: Shape) -> tuple[Part, ...]:
        size = ceil_div(table[0], self.n_classes)
        return (
            contraction(
                "matmul", 2 * prod(x) * size, [(prod(x), 0), (prod(table), 2)], prod(class_of) * size
            ),
        )

    def run(self, torch: Any, weights: dict[str, Any], x: Any, class_of: Any, table: Any) -> Any:
        size = ceil_div(table.shape[0], self.n_classes)
        lacking = self.n_classes * size - table.shape[0]
        padded = torch.nn.functional.pad(table, (0, 0, 0, lacking)) if lacking else table
        tokens, classes = x.flatten(0, -2), class_of.flatten()
        # sizes read back from tensors would break a compiled graph
        multiply = _gathered if torch.compiler.is_compiling() else _grouped
        logits = multiply(torch, tokens, classes, padded, self.n_classes)
        if lacking:
            ids = classes.unsqueeze(-1) * size + torch.arange(size, device=x.device)
            logits = logits.masked_fill(ids >= table.shape[0], float("-inf"))
        return logits.unflatten(0, tuple(class_of.shape))


def _gathered(torch: Any, tokens: Any, classes: Any, table: Any, n_classes: int) -> Any:
    tables = table.unflatten(0, (n_classes, table.shape[0] // n_classes))
    return torch.bmm(tables[classes], tokens.unsqueeze(-1)).squeeze(-1)


def _grouped(torch: Any, tokens: Any, classes: Any, table: Any, n_classes: int) -> Any:
    # sorted by class, each class's tokens are one slice
    order = classes.argsort(stable=True)
    tables = table.split([table.shape[0] // n_classes] * n_classes)
    runs = zip(tokens.index_select(0, order).split(_sizes(torch, classes, n_classes)), tables, strict=True)
    y = torch.cat([torch.nn.functional.linear(run, table) for run, table in runs])
    return y.index_select(0, order.argsort())


def _sizes(torch: Any, classes: Any, n_classes: int) -> list[int]:
    """How many tokens each class has, read back; of an even spread where tensors have no values."""
    if has_no_values(classes):
        share, more = divmod(as_number(classes.numel()), n_classes)
        return [share + (i < more) for i in range(n_classes)]
    sizes: list[int] = torch.bincount(classes, minlength=n_classes).tolist()
    return sizes


@dataclass(frozen=True, slots=True, eq=False)
class ClassLogProbs(Op):
    """log p(word) = log p(class) + log p(word | class) for all words.

    [..., C] and word logits [..., V] to [..., V]. A log-softmax within each class (4 per word, 1 per class),
    and an addition per word.
    """

    name: str

    def shape(self, classes: Shape, logits: Shape) -> Shape:
        return logits

    def parts(self, classes: Shape, logits: Shape) -> tuple[Part, ...]:
        n, c = prod(logits), prod(classes)
        softmax = Part("d_1", OpClass.NORMALIZATION, LOG_SOFTMAX_BACKWARD * n, 2 * n, n, wrt=1)
        summed = Part("d_0", OpClass.NORMALIZATION, n, n, c, wrt=0)
        return (
            Part(
                "log_softmax",
                OpClass.NORMALIZATION,
                LOG_SOFTMAX * n + LOG_SOFTMAX_PER_ROW * c,
                n,
                n,
                (softmax,),
            ),
            Part("add", OpClass.ELEMENTWISE, n, n + c, n, (summed,)),
        )

    def run(self, torch: Any, weights: dict[str, Any], classes: Any, logits: Any) -> Any:
        size = ceil_div(logits.shape[-1], classes.shape[-1])
        lacking = classes.shape[-1] * size - logits.shape[-1]
        padded = torch.nn.functional.pad(logits, (0, lacking), value=float("-inf")).unflatten(-1, (-1, size))
        joined = classes.unsqueeze(-1) + torch.log_softmax(padded, dim=-1)
        return joined.flatten(-2)[..., : logits.shape[-1]]


@dataclass(frozen=True, slots=True, eq=False)
class ClusterIndex(Op):
    """Targets to entries of an adaptive softmax's head.

    Targets below the first cutoff stay as they are; then one entry stands for each cluster.
    """

    name: str
    cutoffs: tuple[int, ...]
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

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

    def run(self, torch: Any, weights: dict[str, Any], x: Any, targets: Any) -> Any:
        flat = targets.flatten()
        if has_no_values(flat):
            place = torch.arange(self._on_meta(flat.numel()), device=flat.device)
        else:
            place = ((flat >= self.low) & (flat < self.high)).nonzero().squeeze(1)
        return x.flatten(0, -2)[place], flat[place] - self.low, place

    def _on_meta(self, tokens: int) -> int:
        n = share_of(tokens, self.share)
        if not is_whole(n):
            raise ArchError(
                f"{self.name}: a share of {self.share} of {tokens} tokens is no whole number",
                "give as many as make it whole",
            )
        return n


@dataclass(frozen=True, slots=True, eq=False)
class ScatterAdd(Op):
    """y = x with values [n] added at indices [n] of the flattened x."""

    name: str

    def parts(self, x: Shape, values: Shape, place: Shape) -> tuple[Part, ...]:
        n = prod(values)
        gradient = Part("d_1", OpClass.MOVEMENT, 0, 2 * n, n, wrt=1)
        return (Part("add", OpClass.ELEMENTWISE, n, 3 * n, n, (gradient,)),)

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

    def run(self, torch: Any, weights: dict[str, Any], anchor: Any) -> Any:
        # a permutation: randint could draw an id twice
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

    def run(
        self, torch: Any, weights: dict[str, Any], logit: Any, logits: Any, samples: Any, targets: Any
    ) -> Any:
        others = logits.masked_fill(samples == targets.unsqueeze(-1), float("-inf"))
        return torch.cat([logit.unsqueeze(-1), others], dim=-1)
