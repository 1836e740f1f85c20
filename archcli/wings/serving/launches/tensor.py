"""Tensors without values, which torch's functions take in a stand-in for torch.

They know shape, strides, number type and storage: what is a view, what a copy, and where gradients flow
follows from these. Most methods are added by the modules of `functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archcli.arith import prod
from archcli.wings.serving.launches.dtypes import REAL, DType
from archcli.wings.serving.launches.log import GradNode, current

Sizes = tuple[int, ...]
FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""Functions of torch and of torch.nn.functional, by name."""


def operation(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function of torch that is a method of tensors too."""
    return in_torch(method(function))


def in_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a function of torch."""
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register a method of tensors."""
    setattr(ShapeTensor, function.__name__.rstrip("_"), function)
    return function


class UnknownFunctionError(NotImplementedError, AttributeError):
    """A function of torch whose kernels are not known."""


class DeviceKind:
    """The device of a tensor without values."""

    @property
    def type(self) -> str:
        """`cuda` or `cpu`."""
        return current().backend


DEVICE = DeviceKind()


class TensorMemory:
    """The memory that a tensor and its views lie in: its shape, and whether it was cut into pieces."""

    __slots__ = ("__weakref__", "_elements", "is_split", "shape")

    def __init__(self, shape: Sizes) -> None:
        self.shape, self.is_split = shape, False
        self._elements: Any = None

    @property
    def elements(self) -> Any:
        """Its elements, counted when they are asked for: of most tensors nobody does."""
        if self._elements is None:
            self._elements = prod(self.shape)
        return self._elements


class ShapeTensor:
    """A tensor without values. `node` and `output` say which step of autograd made it.

    It stands for the `repeats` tensors that as many steps of a loop made. `laid` are its strides; None means
    row-major ones, which are computed when they are asked for.
    """

    __slots__ = (
        "dtype",
        "laid",
        "node",
        "offset",
        "output",
        "repeats",
        "requires_grad",
        "shape",
        "storage",
    )
    fake_mode = None
    """torch's fake tensors have it, too: it tells operations that there are no values to read."""

    def __init__(
        self,
        shape: Sizes,
        dtype: DType,
        strides: Sizes | None = None,
        storage: TensorMemory | None = None,
        offset: int = 0,
        *,
        requires_grad: bool = False,
    ) -> None:
        self.shape, self.dtype, self.offset = shape, dtype, offset
        self.laid = strides
        self.storage = TensorMemory(shape) if storage is None else storage
        self.requires_grad = requires_grad
        self.node: GradNode | None = None
        self.output = 0
        self.repeats = 1

    def __getattr__(self, name: str) -> Any:
        raise UnknownFunctionError(f"kernels of torch.Tensor.{name} are not known")

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.unbind())

    @property
    def strides(self) -> Sizes:
        """Elements from one to the next along each axis."""
        if self.laid is None:
            self.laid = row_major(self.shape)
        return self.laid

    @strides.setter
    def strides(self, strides: Sizes) -> None:
        self.laid = strides

    @property
    def device(self) -> DeviceKind:
        """Where it lies."""
        return DEVICE

    @property
    def is_meta(self) -> bool:
        """Whether it is torch's kind of tensor without values: no."""
        return False

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def elements(self) -> Any:
        """Elements in memory, fewer than in the shape of an expanded tensor."""
        return min(self.numel(), self.storage.elements)

    @property
    def bytes(self) -> Any:
        """Bytes in memory."""
        return self.elements * self.dtype.itemsize

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose of a matrix."""
        return self.t()

    @property
    def real(self) -> Any:
        """The real parts of complex numbers."""
        return self.real_part()

    def is_contiguous(self, **_: Any) -> bool:
        """Whether its elements lie in memory in the order of its axes."""
        return self.laid is None or same_layout(self.shape, self.strides, row_major(self.shape))

    def is_floating_point(self) -> bool:
        """Whether its numbers have fractions."""
        return self.dtype.kind == REAL

    def numel(self) -> Any:
        """How many elements its shape has."""
        return prod(self.shape)

    def dim(self) -> int:
        """How many axes it has."""
        return len(self.shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def storage_offset(self) -> int:
        """Elements before its first one in memory."""
        return self.offset

    def size(self, axis: int | None = None) -> Any:
        """Its shape, or the length of one axis."""
        return self.shape if axis is None else self.shape[axis]

    def __getitem__(self, index: Any) -> Any:
        return self.getitem(index)

    def __add__(self, operand: Any) -> Any:
        return self.add(operand)

    __radd__ = __add__

    def __sub__(self, operand: Any) -> Any:
        return self.sub(operand)

    def __rsub__(self, operand: Any) -> Any:
        return self.rsub(operand)

    def __mul__(self, operand: Any) -> Any:
        return self.mul(operand)

    __rmul__ = __mul__

    def __truediv__(self, operand: Any) -> Any:
        return self.div(operand)

    def __rtruediv__(self, operand: Any) -> Any:
        return self.reciprocal().mul(operand)

    def __floordiv__(self, operand: Any) -> Any:
        return self.floor_divide(operand)

    def __mod__(self, operand: Any) -> Any:
        return self.remainder(operand)

    def __pow__(self, operand: Any) -> Any:
        return self.pow(operand)

    def __rpow__(self, operand: Any) -> Any:
        return FUNCTIONS["pow"](operand, self)

    def __matmul__(self, operand: Any) -> Any:
        return self.matmul(operand)

    def __neg__(self) -> Any:
        return self.neg()

    def __invert__(self) -> Any:
        return self.bitwise_not()

    def __and__(self, operand: Any) -> Any:
        return self.bitwise_and(operand)

    def __or__(self, operand: Any) -> Any:
        return self.bitwise_or(operand)

    def __lt__(self, operand: Any) -> Any:
        return self.lt(operand)

    def __le__(self, operand: Any) -> Any:
        return self.le(operand)

    def __gt__(self, operand: Any) -> Any:
        return self.gt(operand)

    def __ge__(self, operand: Any) -> Any:
        return self.ge(operand)

    def __eq__(self, operand: object) -> Any:
        return self.eq(operand)

    def __ne__(self, operand: object) -> Any:
        return self.ne(operand)

    __hash__ = object.__hash__


def row_major(shape: Sizes) -> Sizes:
    """Strides of elements in the order of the axes."""
    strides, step = [], 1
    for size in shape[::-1]:
        strides.append(step)
        step *= max(size, 1)
    return tuple(strides[::-1])


def same_layout(shape: Sizes, a: Sizes, b: Sizes) -> bool:
    """Whether strides mean the same places: axes of length 1 have none."""
    return all(x == y for size, x, y in zip(shape, a, b, strict=True) if size != 1)
