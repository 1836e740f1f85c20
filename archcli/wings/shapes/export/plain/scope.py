"""A scope: the statements of one call of a module, its parts and its results."""

from __future__ import annotations

from typing import Any

from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.shapes.export.plain.loops import LoopedPieces, varies
from archcli.wings.shapes.export.plain.numbers import ATOM, code_of, coded
from archcli.wings.shapes.export.plain.traced import (
    Described,
    PendingLine,
    WrittenTensor,
    arguments,
    bare,
    target,
)


class CodeScope:
    """One call of a module, or of an operation with weights: what it is given, does and returns.

    parts: the modules in it, by name: the code that makes one of torch's, or a scope.
    weights: its own parameters and buffers, by name: the code that makes them.
    """

    def __init__(
        self, what: Any, path: str = "", n_experts: Any = None, functions: dict[Any, Any] | None = None
    ) -> None:
        self.functions = {} if functions is None else functions
        self.what, self.path, self.n_experts = what, path, n_experts
        self.params: list[WrittenTensor] = []
        self.used: list[WrittenTensor] = []
        self.sizes: list[str] = []
        self.order: list[WrittenTensor] = []
        self.statements: list[PendingLine] = []
        self.parts: dict[str, Any] = {}
        self.weights: dict[str, str] = {}
        self.returns: list[WrittenTensor] = []
        self.results: list[WrittenTensor] = []
        self.routed: WrittenTensor | None = None
        self.runs = self.settled = False
        self.loop: Any = None
        self.lent: CodeScope | None = None
        self.calls: dict[Any, Any] = {}
        self.every: list[PendingLine] = []
        self.lines: list[str] = []
        self.wanted: set[int] = set()

    def param(self, source: Any, value: ShapeTensor, hint: str) -> WrittenTensor:
        """The tensor that stands for an argument in this scope."""
        known = next((p for p in self.params if p.source is source and source is not None), None)
        if known is None:
            known = WrittenTensor(self, PendingLine([]), value, hint)
            known.source, known.weight = source, source.weight if source is not None else ""
            self.params.append(known)
        return known

    def recorded(self, parts: list[Any], value: Any, rank: int = ATOM) -> Any:
        """Write a statement down: what torch returns of it, a tensor or several."""
        if isinstance(value, ShapeTensor):
            return self._written(parts, rank, ("",), (value,))[0]
        if isinstance(value, tuple | list) and value and isinstance(value[0], ShapeTensor):
            fields = vars(type(value)).get("_fields")
            keys = tuple(f".{f}" for f in fields) if fields else tuple(f"[{i}]" for i in range(len(value)))
            outs = self._written(parts, rank, keys, tuple(value))
            return type(value)(*outs) if fields else outs
        return value if isinstance(value, int | float | bool) else Described(parts, value)

    def _written(
        self, parts: list[Any], rank: int, keys: tuple[str, ...], values: Any
    ) -> tuple[WrittenTensor, ...]:
        # a method's result is another form of its tensor
        kept = (
            parts[0][0].hint
            if isinstance(parts[0], tuple)
            and str(parts[1])[0] in ".["
            and not str(parts[1]).startswith(".new_")
            else ""
        )
        statement = PendingLine(parts, rank, keys)
        self.statements.append(statement)
        names = target()
        names = names if len(names) == len(values) else (kept,) * len(values)
        return tuple([WrittenTensor(self, statement, v, name) for v, name in zip(values, names, strict=True)])

    def method(self, x: WrittenTensor, name: str, run: Any, *args: Any, **options: Any) -> Any:
        """A method of a tensor is called."""
        if (pieces := pieces_of(x, name, *args, **options)) is not None:
            return pieces
        size = x.shape[-1] if x.shape else 0
        if name == "topk" and varies(size):
            # of few tokens there are fewer to choose from
            args = (coded(int(args[0]), f"min({code_of(args[0])}, {code_of(size)})"), *args[1:])
        value = run(*bare(args), **{key: bare(item) for key, item in options.items()})
        if value is x.value:
            value = ShapeTensor(x.value.shape, x.value.dtype)
        return self.recorded([(x, ATOM), f".{name}(", *arguments(args, options), ")"], value)

    def function(self, path: str, run: Any, *args: Any, **options: Any) -> Any:
        """A function of torch is called."""
        value = run(*bare(args), **{key: bare(item) for key, item in options.items()})
        if path in {"torch.cat", "torch.stack"} and (whole := args[0][0].collected) is not None:
            value = joined(whole, value, *args[1:], **options)
            args = (whole, *args[1:])
        if isinstance(value, ShapeTensor) and any(value is bare(x) for x in args):
            value = ShapeTensor(value.shape, value.dtype)
        return self.recorded([f"{path}(", *arguments(args, options), ")"], value)


def pieces_of(x: WrittenTensor, name: str, *args: Any, dim: int = 0, **_: Any) -> LoopedPieces | None:
    """The pieces that a tensor is split into, where their number is that of a pass."""
    if name == "split" and isinstance(args[0], int):
        axis = (args[1] if len(args) > 1 else dim) % len(x.shape)
        return LoopedPieces(x, name, (args[0], axis), axis, args[0]) if varies(x.shape[axis]) else None
    if name == "unbind":
        axis = (args[0] if args else dim) % len(x.shape)
        return LoopedPieces(x, name, (axis,), axis, None) if varies(x.shape[axis]) else None
    return None


def joined(whole: WrittenTensor, value: ShapeTensor, dim: int = 0) -> ShapeTensor:
    """What the pieces of all steps of a loop are together."""
    loop: Any = whole.statement
    sequence, shape = loop.items[0][0], list(value.shape)
    shape[dim] = sequence.axis_size
    return ShapeTensor(tuple(shape), value.dtype)
