"""The cache before a pass, as tensors without values: their shapes and number types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from archcli.arith import Number
from archcli.graph import Op, Tensor, tree_map
from archcli.graph.count_tape import Abstract, CountTape
from archcli.graph.kept import FP32, INT64, Call, Execution
from archcli.graph.memory_tape import FilledTape, Placement
from archcli.kernels.dtypes import NAMED, DType
from archcli.kernels.tensor import ShapeTensor
from archcli.modules import Model
from archcli.modules.spec.request import Request
from archcli.modules.spec.trace import run_on

T = TypeVar("T", bound=CountTape)


class CacheTape(FilledTape):
    """A FilledTape that knows the bytes of an element of each tensor, and so of what is cached.

    `folded`: it traces the layers of one period alone.
    """

    __slots__ = ("execution", "folded")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.execution, self.folded = Execution(), False

    def _child(self, cls: type[T], **changes: Any) -> T:
        child = super()._child(cls, **changes)
        if isinstance(child, CacheTape):
            child.execution, child.folded = self.execution, self.folded
        return child

    def occurrences(
        self, n_layers: Number, period: int, *, apart: bool = False
    ) -> Iterator[tuple[int, Number]]:
        """The layers of one period, or of three."""
        each = CountTape if self.folded else FilledTape
        yield from each.occurrences(self, n_layers, period, apart=apart)

    @property
    def gradless(self) -> type[CountTape]:
        """The same: no gradient flows anywhere."""
        return type(self)

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Run the op's shapes, and give each output the width that the op states."""
        out = super().emit(op, *xs, group=group, trained=trained)
        given = tuple([self._width(x) for x in xs])
        call = Call(self.execution, (False,) * len(xs), given or (self.execution.width,))
        widths = iter(op.widths(call, *[x.value.shape for x in xs]))

        def with_width(x: Tensor) -> Tensor:
            return Tensor(self, Abstract(x.value.shape, grad=False, place=Placement(None, next(widths))))

        return tree_map(with_width, Tensor, out)

    def _width(self, x: Tensor) -> Any:
        place = x.value.place
        return self.execution.width if place is None else place.width


def filled_cache(model: Model, filling: Request, execution: Execution, dtype: DType, *, folded: bool) -> Any:
    """The cache after the pass that fills it, each tensor in the order of its axes.

    With `folded` that of the layers of one period of each pattern.
    """
    tape = CacheTape([])
    tape.execution, tape.folded = execution, folded
    widths = {"ids": INT64, "features": execution.width}
    inputs = {
        name: Abstract(spec.shape, grad=False, place=Placement(None, widths[spec.kind]))
        for name, spec in model.inputs(filling).items()
    }
    _, cache = run_on(tape, model.adapted, filling, inputs, ())

    def without_values(x: Tensor) -> Tensor:
        shape = tuple([int(size) for size in x.value.shape])
        in_fp32 = x.value.place.width == FP32
        return Tensor(x.tape, ShapeTensor(shape, NAMED["float32"] if in_fp32 else dtype))

    return tree_map(without_values, Tensor, cache)
