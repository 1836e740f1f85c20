"""What holds the weights of an operation: one of torch's modules, or a class that runs it."""

from __future__ import annotations

from typing import Any

from archcli.errors import ArchError
from archcli.graph import Op
from archcli.wings.serving.launches.dtypes import NAMED
from archcli.wings.serving.launches.tensor import ShapeTensor
from archcli.wings.shapes.export.plain.numbers import code_of
from archcli.wings.shapes.export.plain.scope import CodeScope
from archcli.wings.shapes.export.plain.traced import Writer, WrittenTensor, arguments

FLOAT = NAMED["bfloat16"]


def ran(op: Op, torch: Any, weights: dict[str, Any], inputs: list[Any]) -> Any:
    """What the op's `run` returns on these tensors. Raises ArchError where it asks for their values."""
    try:
        out = op.run_fused(torch, weights, *inputs)
    except (NotImplementedError, AttributeError, TypeError, ValueError, IndexError) as problem:
        known = isinstance(problem, NotImplementedError)
        raise unwritten(op, str(problem) if known else "what it does depends on values") from problem
    return tuple(out) if isinstance(out, tuple | list) else out


def ran_on_shapes(op: Op, inputs: list[WrittenTensor]) -> ShapeTensor:
    """The result of one of torch's modules: a tensor of the op's shape."""
    return ShapeTensor(tuple(op.shape(*[x.shape for x in inputs])), FLOAT)


def unwritten(op: Op, why: str) -> ArchError:
    """The error for an operation that has no code."""
    what = f"the operation {type(op).__name__} ({op.name}) cannot be written as plain torch yet: {why}"
    return ArchError(what, "archcli.build makes a torch module of it, --to hf a config.json")


class TorchModule:
    """Code that makes one of torch's modules; `requires_grad_` leaves it as it is."""

    def __init__(self, code: str) -> None:
        self.code = code

    def requires_grad_(self, *_: Any) -> TorchModule:
        """The same: only training asks."""
        return self


class Modules:
    """torch.nn, of which an op's `leaf` takes a module: the code that makes it."""

    def __getattr__(self, name: str) -> Any:
        if name == "TokenBatchNorm":
            return lambda *_, **__: None
        name = "Linear" if name == "ZeroLinear" else name

        def make(*args: Any, **options: Any) -> TorchModule:
            return TorchModule(f"nn.{name}({''.join(arguments(args, options))})")

        return make


def part_of(op: Op, inputs: list[WrittenTensor], scope: CodeScope) -> Any:
    """What holds the op's weights: code that makes one of torch's modules, or a scope that runs the op."""
    shapes, n = [x.shape for x in inputs], scope.n_experts
    if n is not None and op.grouped:
        weight = op.weights(*shapes)["weight"]
        sizes = ", ".join(code_of(size) for size in (n, weight[1], weight[0]))
        return f"ExpertLinear({sizes}{', bias=True' if 'bias' in op.weights(*shapes) else ''})"
    module = None if n is not None else op.leaf(Modules(), *shapes)
    if module is not None:
        return module.code
    return op_scope(op, inputs, scope)


def op_scope(op: Op, inputs: list[WrittenTensor], parent: CodeScope) -> CodeScope:
    """A scope whose forward is the op's `run` on parameters of its own; within experts on those of each."""
    scope, n = CodeScope(op, f"{parent.path}.{op.name}".lstrip("."), None, parent.functions), parent.n_experts
    params = [
        scope.param(x, x.value, x.hint if i or x.hint == "index" else "x") for i, x in enumerate(inputs)
    ]
    shapes, weights = [x.shape for x in inputs], {}
    if n is not None:
        index: Any = parent.routed
        scope.routed = scope.param(index, index.value, "expert_of")
    scope.order = [*params, *([scope.routed] if scope.routed else [])]
    for kind, sizes in (("nn.Parameter", op.weights(*shapes)), ("buffer", op.buffers(*shapes))):
        for name, size in sizes.items():
            stack = size if n is None else (n, *size)
            scope.weights[name] = made_weight(kind, op, name, stack)
            dtype = NAMED["int64"] if name in op.whole_buffers else FLOAT
            of = scope.recorded([f"self.{name}"], ShapeTensor(tuple(stack), dtype))
            weights[name] = of if n is None else of[scope.routed]
    out = ran(op, Writer(scope), weights, params)
    scope.runs = isinstance(out, tuple)
    scope.results = list(out) if scope.runs else [out]
    return scope


def made_weight(kind: str, op: Op, name: str, size: tuple[Any, ...]) -> str:
    """The code that makes a parameter or buffer as the op starts it."""
    start, sizes = op.initial(name), ", ".join(code_of(n) for n in size)
    if name in op.whole_buffers:
        value = f"torch.zeros({sizes}, dtype=torch.long)"
    elif start is None:
        value = f"0.02 * torch.randn({sizes})"
    else:
        value = {0.0: f"torch.zeros({sizes})", 1.0: f"torch.ones({sizes})"}.get(
            start, f"torch.full(({sizes},), {start})"
        )
    return f"{kind}({value})"
