"""Tensors that write down what torch computes with them, and the stand-in for torch that makes them.

The shapes are those of tensors without values (`archcli.wings.serving.launches`): no torch is needed.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from archcli.wings.serving.launches.dtypes import DType
from archcli.wings.serving.launches.functions.torch_like import TORCH, TorchLike
from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.shapes.export.plain.numbers import ATOM, NEUTRAL, POWER, PRODUCT, SIGN, SUM, Coded, code_of

NUMBERS = (int, float)
Run = Callable[..., Any]
COMPARE = -1
"""How tightly a comparison or a bitwise operator binds: it is always put in brackets."""
SIGNS = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "truediv": ("/", PRODUCT),
    "matmul": ("@", PRODUCT),
    "floordiv": ("//", PRODUCT),
    "mod": ("%", PRODUCT),
    "pow": ("**", POWER),
    **{name: (sign, COMPARE) for name, sign in (("and", "&"), ("or", "|"), ("lt", "<"), ("le", "<="))},
    **{name: (sign, COMPARE) for name, sign in (("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!="))},
}


class PendingLine:
    """A line of code before it has names: its parts, and the tensors that it makes.

    parts: text, and pairs of a tensor and how tightly its code must bind there.
    keys: the code that takes each of several results out of what the line computes.
    call: the scope that a call of a module runs. noted: whether its shapes stand in a comment.
    """

    def __init__(self, parts: list[Any], rank: int = ATOM, keys: tuple[str, ...] = ("",)) -> None:
        self.parts, self.rank, self.keys = parts, rank, keys
        self.outs: list[WrittenTensor] = []
        self.call: Any = None
        self.noted = False


def reads(statement: PendingLine) -> list[WrittenTensor]:
    """The tensors in a statement's code."""
    return [part[0] for part in statement.parts if isinstance(part, tuple)]


class Described:
    """A number type, device or limit, by code such as `x.dtype`."""

    def __init__(self, parts: list[Any], value: Any) -> None:
        self.parts, self.value = parts, value

    def __getattr__(self, name: str) -> Any:
        return Described([*self.parts, f".{name}"], getattr(self.value, name))

    def __eq__(self, operand: object) -> bool:
        return bool(self.value == bare(operand))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __floordiv__(self, number: int) -> Any:
        return self.value // number

    def __rfloordiv__(self, number: int) -> Any:
        return number // self.value

    __hash__ = object.__hash__


class WrittenTensor:
    """A tensor in the code of a scope: the statement that makes it, its shape and a name that suits it."""

    def __init__(self, scope: Any, statement: PendingLine, value: ShapeTensor, hint: str = "") -> None:
        self.scope, self.statement, self.value, self.hint = scope, statement, value, hint
        self.source: Any = None
        self.weight, self.every = "", False
        self.collected: Any = None
        self.axis_size: Any = None
        self.number: Any = None
        statement.outs.append(self)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes of the axes, each with its code."""
        return tuple(self.value.shape)

    def __getattr__(self, name: str) -> Any:
        if name == "fake_mode" or name.startswith("__"):
            raise AttributeError(name)  # there are values, once the code runs
        value = getattr(self.value, name)
        if isinstance(value, ShapeTensor):
            return self.scope.recorded([(self, ATOM), f".{name}"], value)
        if name in {"dtype", "device"}:
            return Described([(self, ATOM), f".{name}"], value)
        return partial(self.scope.method, self, name, value) if callable(value) else value

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Any:
        return iter(self.unbind(0))

    def __getitem__(self, index: Any) -> Any:
        parts = [(self, ATOM), "[", *_inside(index), "]"]
        return self.scope.recorded(parts, self.value[bare(index)])

    def __neg__(self) -> Any:
        return self.scope.recorded(["-", (self, SIGN)], -self.value, SIGN)

    def __invert__(self) -> Any:
        return self.scope.recorded(["~", (self, SIGN)], ~self.value, SIGN)

    __hash__ = object.__hash__


def _define(name: str, sign: str, rank: int) -> None:
    # both operands of a comparison or a power bind more tightly than it does
    left, right = (rank + 1, rank + (sign not in "+*")) if rank in (COMPARE, POWER) else (rank, rank + 1)

    def operate(a: Any, b: Any) -> Any:
        if not isinstance(b, WrittenTensor) and NEUTRAL.get(sign) == b and a.is_floating_point():
            return a
        return a.scope.recorded(
            [*code(a, left), f" {sign} ", *code(b, right)], getattr(a.value, f"__{name}__")(bare(b)), rank
        )

    def reflected(b: Any, a: Any) -> Any:
        value = getattr(b.value, f"__r{name}__")(bare(a))
        return b.scope.recorded([*code(a, left), f" {sign} ", *code(b, right)], value, rank)

    setattr(WrittenTensor, f"__{name}__", operate)
    if hasattr(ShapeTensor, f"__r{name}__"):
        setattr(WrittenTensor, f"__r{name}__", reflected)


for _name, _how in SIGNS.items():
    _define(_name, *_how)


def bare(value: Any) -> Any:
    """The value as the stand-in for torch takes it."""
    if isinstance(value, WrittenTensor | Described):
        return value.value
    if isinstance(value, tuple | list):
        return type(value)(bare(item) for item in value)
    return slice(*map(bare, (value.start, value.stop, value.step))) if isinstance(value, slice) else value


def code(value: Any, rank: int = COMPARE) -> list[Any]:
    """The code of an argument, as parts of a statement."""
    if isinstance(value, WrittenTensor):
        return [(value, rank)] if value.number is None or rank == COMPARE else code(value.number, rank)
    if isinstance(value, Described):
        return value.parts
    if isinstance(value, tuple | list):
        opened, closed = "()" if isinstance(value, tuple) else "[]"
        last = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return [opened, *_joined(value), last + closed]
    if isinstance(value, slice):
        ends = [[] if end is None else code(end) for end in (value.start, value.stop)]
        step = [] if value.step is None else [":", *code(value.step)]
        return [*ends[0], ":", *ends[1], *step]
    if isinstance(value, Coded) or (isinstance(value, NUMBERS) and not isinstance(value, bool)):
        return [f'float("{value}")' if value in (float("inf"), float("-inf")) else code_of(value, rank)]
    return ["..." if value is ... else f'"{value}"' if isinstance(value, str) else repr(value)]


def _joined(values: Any) -> list[Any]:
    return [part for i, value in enumerate(values) for part in ([", "] if i else []) + code(value)]


def _inside(index: Any) -> list[Any]:
    return _joined(index) if isinstance(index, tuple) else code(index)


class Writer:
    """torch, as an operation's `run` is given it: each function is written down in the scope."""

    def __init__(self, scope: Any, path: str = "torch") -> None:
        self.scope, self.path = scope, path

    def __getattr__(self, name: str) -> Any:
        value, path = getattr(TORCH, name), f"{self.path}.{name}"
        if isinstance(value, TorchLike):
            return Writer(self.scope, "F" if name == "functional" else path)
        if isinstance(value, DType) or name.endswith("_format"):
            return Described([path], value)
        if name == "tensor":
            return partial(self._tensor, value)
        if name == "dropout":
            return lambda x, *_, **__: x
        return partial(self.scope.function, path, value) if callable(value) else value

    def _tensor(self, run: Run, number: Any, **options: Any) -> Any:
        """A tensor of a number: the number itself, where an operator takes it."""
        x = self.scope.function("torch.tensor", run, number, **options)
        x.number = number if isinstance(number, NUMBERS) else None
        return x


USUAL: dict[str, tuple[Any, ...]] = {
    "attn_mask": (None,),
    "dropout_p": (0.0,),
    "is_causal": (False,),
    "enable_gqa": (False,),
    "bias": (True,),
}
"""Options of torch's functions that are left out where they have these values."""


def arguments(args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
    """The code between the brackets of a call."""
    named = [[f"{name}=", *code(value)] for name, value in options.items() if not _is_usual(name, value)]
    kept = args[:-1] if args and args[-1] is None else args
    every = [*(code(value) for value in kept), *named]
    return [part for i, parts in enumerate(every) for part in ([", "] if i else []) + parts]


def _is_usual(name: str, value: Any) -> bool:
    return not isinstance(value, WrittenTensor) and value in USUAL.get(name, ())


RETURNED = ("",)
"""What stands for the names of a value that a function returns: its caller names it."""


def target() -> tuple[str, ...]:
    """The names that the line of an operation's `run` gives to what it computes now."""
    frame: Any = sys._getframe()  # noqa: SLF001
    while _is_writer(frame):
        frame = frame.f_back
    while True:
        where = _positions(frame.f_code)[frame.f_lasti // 2]
        names = _targets(frame.f_globals["__name__"]).get(where, ())
        if names is not RETURNED or _is_writer(frame.f_back):
            return names
        frame = frame.f_back


def _is_writer(frame: Any) -> bool:
    return bool(frame.f_globals["__name__"].startswith((__package__ or "archcli", "archcli.graph")))


@cache
def _positions(code: Any) -> list[Any]:
    """The place in the source of each instruction."""
    return list(code.co_positions())


@cache
def _targets(module: str) -> dict[Any, tuple[str, ...]]:
    """By the place of an expression in a module: the names that it is assigned to."""
    known: dict[Any, tuple[str, ...]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(sys.modules[module]))):
        if isinstance(node, ast.Assign):
            _assign(node.targets[0], node.value, known)
        elif isinstance(node, ast.Return) and node.value is not None:
            known[_where(node.value)] = RETURNED
    return known


def _assign(name: ast.expr, value: ast.expr, known: dict[Any, tuple[str, ...]]) -> None:
    names = name.elts if isinstance(name, ast.Tuple) else [name]
    if isinstance(value, ast.Tuple) and len(value.elts) == len(names):
        for item, part in zip(names, value.elts, strict=True):
            _assign(item, part, known)
    elif all(isinstance(item, ast.Name) for item in names):
        known[_where(value)] = tuple(item.id for item in names if isinstance(item, ast.Name))


def _where(node: ast.expr) -> tuple[Any, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
