"""The tape that writes code: each operation a statement, each module a scope of its own."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

from archcli.errors import ArchError
from archcli.graph import Op, Tensor, tree_map
from archcli.graph.count_tape import settings_of
from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.shapes.export.plain.lines import ForwardLines, settle, shape_of
from archcli.wings.shapes.export.plain.numbers import coded
from archcli.wings.shapes.export.plain.parts import FLOAT, part_of, ran, ran_on_shapes, unwritten
from archcli.wings.shapes.export.plain.scope import CodeScope
from archcli.wings.shapes.export.plain.traced import PendingLine, Writer, WrittenTensor, arguments, target

SHORT = 2
"""Lines of an operation that stand among those of its module."""
ENDS = ("_residual", "_proj", "_heads", "_rotate", "_norm", "_clip", "_add", "_merge", "_multiplier")
STREAMS = frozenset({"tokens", "scale", "residual", "embed", "norm", "dropout"})


def hint_of(name: str) -> str:
    """The name of a variable for what an operation returns: `q` of q_proj, `x` of ffn_residual."""
    if name.endswith("_residual") or name in STREAMS:
        return "x"
    if name.endswith("norm") and name[0] not in "qkv":
        return "h"
    for end in ENDS * 2:
        name = name.removesuffix(end)
    return name.rpartition(".")[2]


class CodeTape:
    """Writes each operation into the scope of its module, and each module into a scope of its own."""

    def __init__(
        self, scope: CodeScope, first: dict[str, CodeScope], runs: Any, lent: CodeScope | None = None
    ) -> None:
        self.scope, self.first, self.runs, self.lent = scope, first, runs, lent

    def emit(self, op: Op, *xs: Tensor, group: str = "", trained: bool = True) -> Any:
        """Write the op as what its `run` calls, or as the call of a module that holds its weights."""
        inputs = [x.value for x in xs]
        shapes = [x.shape for x in inputs]
        if not op.weights(*shapes) and not op.buffers(*shapes):
            out = inputs[0] if op.needs_module else self._run(op, inputs)
        elif op.is_weight:
            return self.weight(op, *xs, trained=trained)
        else:
            out = self._called(op, inputs)
        many, promised = isinstance(out, tuple), op.shape(*shapes)
        names = target()
        for i, (x, shape) in enumerate(zip(out, promised, strict=True) if many else ((out, promised),)):
            named = names[i] if many and len(names) == len(out) else x.hint
            self._noted(x, shape, named if many else hint_of(op.name), inputs)
        return tree_map(lambda x: Tensor(self, x), WrittenTensor, out)

    def _run(self, op: Op, inputs: list[WrittenTensor]) -> Any:
        """What an op without weights returns: of a long one by a function of its own."""
        key = type(op), repr(settings_of(op)), tuple([(shape_of(x.shape), x.value.dtype) for x in inputs])
        if key not in self.runs:
            self.runs[key] = self._function(op, inputs)
        function = self.runs[key]
        if function is None:
            return ran(op, Writer(self.scope), {}, inputs)
        # equal tables of layers that alternate are computed once
        known = self.scope.calls.setdefault((id(function), *map(id, inputs)), [])
        if not known:
            known.append(entered(self.scope, function, "", inputs, tuple(function.results), ""))
        return known[0]

    def _function(self, op: Op, inputs: list[WrittenTensor]) -> CodeScope | None:
        """The function that runs the op; None where it is short."""
        function = CodeScope(op, functions=self.scope.functions)
        names = [*signature(op.run).parameters][2:]
        names += [x.hint for x in inputs[len(names) - 1 :]]
        params = [function.param(x, x.value, name) for x, name in zip(inputs, names, strict=False)]
        function.order = params
        out = ran(op, Writer(function), {}, params)
        function.runs, function.results = (
            isinstance(out, tuple),
            list(out) if isinstance(out, tuple) else [out],
        )
        settle(function, function.results)
        passes = any(x is p for x in function.results for p in params)
        return None if passes or len(ForwardLines(function).lines()) <= SHORT else function

    def _noted(self, x: WrittenTensor, shape: Any, hint: str, inputs: list[WrittenTensor]) -> None:
        """Give what an operation returns its shape in the names of the model, and a name."""
        if any(x is y for y in inputs):
            return
        x.value.shape, x.statement.noted = tuple(shape), True
        x.hint = hint or x.hint

    def _called(self, op: Op, inputs: list[WrittenTensor]) -> Any:
        part = self._part(op, inputs)
        routed = [self.scope.routed] if self.scope.n_experts is not None and self.scope.routed else []
        if not isinstance(part, CodeScope):
            value = ran_on_shapes(op, inputs)
            read = arguments((*inputs, *routed), {})
            return self.scope.recorded([f"self.{op.name}(", *read, ")"], value)
        return entered(self.scope, part, op.name, [*inputs, *routed], tuple(part.results), self.scope.path)

    def _part(self, op: Op, inputs: list[WrittenTensor]) -> Any:
        """The module that holds the op's weights, made once."""
        known = (self.lent or self.scope).parts
        if op.name not in known:
            if self.lent is not None or "." in op.name:
                raise unwritten(op, "adapters, and weights beside shared ones, have no code")
            known[op.name] = part_of(op, inputs, self.scope)
        return known[op.name]

    def weight(
        self, op: Op, *xs: Tensor, group: str = "", trained: bool = True, which: str = "weight"
    ) -> Tensor:
        """The weight itself, by its path in the model."""
        inputs = [x.value for x in xs]
        self._part(op, inputs)
        shape = op.weights(*[x.shape for x in inputs])[which]
        owner = (self.lent or self.scope).path
        x = self.scope.recorded([f"self.{op.name}.{which}"], ShapeTensor(tuple(shape), FLOAT))
        x.weight, x.hint = f"{owner}.{op.name}.{which}".lstrip("."), hint_of(op.name)
        return Tensor(self, x)

    def declaring(self) -> CodeTape:
        """The same tape: what nothing reads is written in no forward, and its weights are there."""
        return self

    def unshared(self) -> CodeTape:
        """The same tape; an op that brings weights of its own is refused within shared ones."""
        return self

    def call(self, module: Any, name: str, *args: Any, **options: Any) -> Any:
        """Write the child's forward into a scope of its own."""
        experts, key = options.get("experts"), options.get("shares")
        child = CodeScope(
            module,
            f"{self.scope.path}.{name}".lstrip("."),
            experts and experts.n_experts,
            self.scope.functions,
        )
        shared = self.first.get(key) if key else None
        child.lent = lent = self.lent.parts[name] if shared is None and self.lent is not None else shared
        number = name.removeprefix("layers.")
        if number.isdigit():
            layer = coded(int(number), f"\x02l{number}\x03")
            args = tuple([arg._replace(layer=layer) if hasattr(arg, "layer") else arg for arg in args])
        tape = CodeTape(child, self.first, self.runs, lent)
        read = [x.value for x in tensors_in(args)]
        first = read[0] if read else None

        def inside(x: Tensor) -> Tensor:
            hint = "x" if x.value is first and len(x.shape) > 2 else x.value.hint  # noqa: PLR2004
            return Tensor(tape, child.param(x.value, x.value.value, hint))

        if "index" in options:
            child.routed = child.param(options["index"].value, options["index"].value.value, "expert_of")
        out = module.forward(*tree_map(inside, Tensor, args))
        if key:
            self.first.setdefault(key, child)
        place = name if shared is None else shared.path.removeprefix(self.scope.path).lstrip(".")
        if lent is None:
            self.scope.parts[name] = child
        elif shared is not None and not shared.path.startswith(self.scope.path):
            raise ArchError("layers that share a part of themselves cannot be written as plain torch yet")
        child.results = list({id(x.value): x.value for x in tensors_in(out)}.values())
        if number.isdigit() and child.results:
            child.results[0].hint = "x"
        outs = entered(self.scope, child, place, None, tuple(child.results), self.scope.path)
        outside = {id(x): y for x, y in zip(child.results, outs, strict=True)}
        return tree_map(lambda x: Tensor(self, outside[id(x.value)]), Tensor, out)

    def inline(self, module: Any, group: str, *args: Any, no_grad: Any = None, **options: Any) -> Any:
        """Write the module's ops among the caller's."""
        return module.forward(*args, **options)

    def occurrences(self, n_layers: int, period: int, *, apart: bool = False) -> Iterator[tuple[int, int]]:
        """Every layer: equal lines become a loop afterwards."""
        return ((i, 1) for i in range(n_layers))


def tensors_in(tree: Any) -> list[Tensor]:
    """The tensors of a tree, in order."""
    tensors: list[Tensor] = []

    def noted(x: Tensor) -> Tensor:
        tensors.append(x)
        return x

    tree_map(noted, Tensor, tree)
    return tensors


def entered(
    scope: CodeScope, child: CodeScope, name: str, inputs: Any, results: tuple[WrittenTensor, ...], path: str
) -> tuple[WrittenTensor, ...] | WrittenTensor:
    """The call of a child in its parent's code, and what it gives there; `inputs` None for a module's."""
    statement = PendingLine([name])
    statement.call, statement.noted = child, True
    scope.statements.append(statement)
    sources = inputs or []
    statement.parts += [sources]
    outs = []
    for x in results:
        if inputs is None and any(x is p for p in child.params):
            outs.append(x.source)
        elif x.weight:
            y = scope.recorded([f"self.{x.weight.removeprefix(path).lstrip('.')}"], x.value)
            y.weight, y.hint = x.weight, x.hint
            outs.append(y)
        else:
            y = WrittenTensor(scope, statement, ShapeTensor(x.value.shape, x.value.dtype), x.hint)
            y.source = x
            outs.append(y)
    return outs[0] if inputs is not None and not child.runs else tuple(outs)
