"""Ops of a two-level softmax: classes of equal size; training computes only the target's class.

N tokens B*T, C classes, W words per class = ceil(V / C), V words, D width. Word w is entry w % W of class w
// W. What the last class lacks is computed and struck out (-inf).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from archcli.arith import Number, Shape, ceil_div, minimum, prod
from archcli.graph import Op, OpClass, Part
from archcli.graph.kept import BOOL, INT64, Call, In, Kept, New
from archcli.ops.base import (
    LOG_SOFTMAX,
    LOG_SOFTMAX_BACKWARD,
    LOG_SOFTMAX_PER_ROW,
    WHOLE_NUMBERS,
    contraction,
    has_no_values,
)


@dataclass(frozen=True, slots=True, eq=False)
class ClassOf(Op):
    """Targets [...] to their classes [...] and their indices within the class [...]."""

    name: str
    size: Number
    zero_cost_reason: ClassVar[str] = WHOLE_NUMBERS

    def shape(self, targets: Shape) -> tuple[Shape, Shape]:
        return targets, targets

    def parts(self, targets: Shape) -> tuple[Part, ...]:
        return ()

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

    def kept(self, call: Call, x: Shape, class_of: Shape, table: Shape) -> tuple[Kept, ...]:
        of_x, _, of_table = call.grads
        tokens, width, size = prod(class_of), call.widths[0], ceil_div(table[0], self.n_classes)
        lacking = self.n_classes * size - table[0]
        some = minimum(lacking, 1)  # 0 where every class is full
        is_full = isinstance(lacking, int) and lacking == 0
        padded = New(some * self.n_classes * size * table[1], width)
        kept: list[Kept] = [New(tokens, INT64)]
        kept += [] if is_full else [New(some * tokens * size, BOOL)]
        kept += [New(prod(x), width)] if of_table else []
        return (*kept, New(tokens, INT64), In(2) if is_full else padded) if of_x else tuple(kept)

    def run(self, torch: Any, weights: dict[str, Any], x: Any, class_of: Any, table: Any) -> Any:
        size = ceil_div(len(table), self.n_classes)
        lacking = self.n_classes * size - len(table)
        padded = torch.nn.functional.pad(table, (0, 0, 0, lacking)) if lacking else table
        tokens, classes = x.flatten(0, -2), class_of.flatten()
        multiply = _gathered if torch.compiler.is_compiling() else _grouped
        logits = multiply(torch, tokens, classes, padded, self.n_classes)
        if lacking:
            words = classes.unsqueeze(-1) * size + torch.arange(size, device=x.device)
            logits = logits.masked_fill(words >= len(table), float("-inf"))
        return logits.unflatten(0, tuple(class_of.shape))


def _gathered(torch: Any, tokens: Any, classes: Any, table: Any, n_classes: int) -> Any:
    tables = table.unflatten(0, (n_classes, len(table) // n_classes))
    return torch.bmm(tables[classes], tokens.unsqueeze(-1)).squeeze(-1)


def _grouped(torch: Any, tokens: Any, classes: Any, table: Any, n_classes: int) -> Any:
    order = classes.argsort(stable=True)
    tables = table.split([len(table) // n_classes] * n_classes)
    runs = zip(tokens.index_select(0, order).split(_sizes(torch, classes, n_classes)), tables, strict=True)
    y = torch.cat([torch.nn.functional.linear(run, table) for run, table in runs])
    return y.index_select(0, order.argsort())


def _sizes(torch: Any, classes: Any, n_classes: int) -> list[int]:
    """How many tokens each class has, read back; of an even spread where tensors have no values."""
    if has_no_values(classes):
        each, more = divmod(int(classes.numel()), n_classes)
        return [each + (i < more) for i in range(n_classes)]
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

    def kept(self, call: Call, classes: Shape, logits: Shape) -> tuple[Kept, ...]:
        words = ceil_div(logits[-1], classes[-1]) * classes[-1]
        return (New(prod(logits[:-1]) * words, call.widths[1]),) if call.grads[1] else ()

    def run(self, torch: Any, weights: dict[str, Any], classes: Any, logits: Any) -> Any:
        size = ceil_div(logits.shape[-1], classes.shape[-1])
        lacking = classes.shape[-1] * size - logits.shape[-1]
        padded = torch.nn.functional.pad(logits, (0, lacking), value=float("-inf")).unflatten(-1, (-1, size))
        joined = classes.unsqueeze(-1) + torch.log_softmax(padded, dim=-1)
        return joined.flatten(-2)[..., : logits.shape[-1]]
