"""Formula: closed forms of parameters, FLOPs, cache and kept bytes, counted with symbols as sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from archcli.arith import Number
from archcli.errors import ArchError
from archcli.graph.kept import Execution
from archcli.measure.passes import forward_pass, prefill_pass
from archcli.modules import Model
from archcli.modules.spec.request import Request, usual_tokens
from archcli.wings.serving.memory.traced import kept_bytes, trace_memory
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic.symbols import ModelSymbols, without_idle_layers


class FormulaParts(NamedTuple):
    """The fields of `Formula`, without its `kept_bytes`."""

    params: Any
    matmul_flops: Any
    other_flops: Any
    kv_elements: Any
    values: dict[Any, int]


class Formula(FormulaParts):
    """Closed forms as sympy expressions in YAML keys, `batch_size` and `seq_len`, and their `values`.

    Fields of one name that differ in value have names with a part of their path: shared.d_ff is shared_d_ff.
    Divisions that come out even in this architecture are written without rounding. `kept_bytes` is computed
    when it is first read.
    """

    find_kept: Callable[[], Any]

    @cached_property
    def kept_bytes(self) -> Any:
        """Bytes that the forward keeps for the backward: bf16, fused attention on CUDA.

        Found when first asked for, and checked like the others. It holds for batches of 2 or more and sizes
        that run the same kernels as the model's, on the same side of every window.
        Raises ArchError where the model has no one closed form at these sizes.
        """
        return self.find_kept()

    def __repr__(self) -> str:
        lines = [f"{name:<12} = {expression}" for name, expression in self._equations()]
        lines.append("at " + ", ".join(f"{symbol} {value:,}" for symbol, value in self.values.items()))
        return "\n".join(lines)

    def _repr_latex_(self) -> str:
        """The equations as a notebook sets them."""
        sympy = required("sympy")
        lines = [
            f"{sympy.latex(sympy.Symbol(name))} &= {sympy.latex(expression)}"
            for name, expression in self._equations()
        ]
        return r"$$\begin{aligned}" + r" \\ ".join(lines) + r"\end{aligned}$$"

    def _equations(self) -> Iterator[tuple[str, Any]]:
        """(name, expression) of all but the values."""
        return zip(self._fields[:-1], self[:-1], strict=True)


def formula(
    model: Model, *, batch_size: int = 1, seq_len: int | None = None, unmasked: bool = False
) -> Formula:
    """The closed forms, each checked to equal the counted integer at the model's sizes.

    The values of `batch_size` and `seq_len` matter only for that check and for which divisions are even.
    """
    model = without_idle_layers(model)
    seq_len = int(usual_tokens(model.max_seq_len)) if seq_len is None else seq_len
    symbols = ModelSymbols(model, {"batch_size": batch_size, "seq_len": seq_len})
    sizes = symbols.sizes["batch_size"], symbols.sizes["seq_len"]
    expressions = [
        symbols.tidied(expression) for expression in _read(symbols.model, *sizes, unmasked=unmasked)
    ]
    for expression, count in zip(
        expressions, _read(model, batch_size, seq_len, unmasked=unmasked), strict=True
    ):
        value = symbols.value(expression)
        if value != count:
            raise ArchError(f"the formula {expression} gives {value}, counting gives {count}", "report this")
    params, matmul_flops, other_flops, kv_elements = map(_factored, expressions)
    result = Formula(params, matmul_flops, other_flops, kv_elements, symbols.values)

    def kept() -> Any:
        # an axis of length 1 has a layout of its own: the formula would hold for a single sequence alone
        values = {symbol: max(value, 2) for symbol, value in symbols.values.items()}
        expression = symbols.tidied(activation_memory(symbols.model, *sizes, values))
        _require_kept(symbols.value(expression), activation_memory(model, batch_size, seq_len))
        return _factored(expression)

    # a subclass of a NamedTuple has a __dict__, so that kept bytes are no element of the tuple
    result.find_kept = kept
    return result


def _require_kept(value: Any, count: int) -> None:
    if value != count:
        raise ArchError(
            f"the closed form of kept bytes gives {value}, counting gives {count}",
            "it is that of batches of 2 or more",
        )


def _read(model: Model, batch_size: Any, seq_len: Any, *, unmasked: bool) -> Iterator[Any]:
    counted = forward_pass(model, batch_size, seq_len)
    yield from (
        counted.params(),
        *counted.flops(unmasked=unmasked),
        prefill_pass(model, batch_size, seq_len).cached(),
    )


def _factored(expression: Any) -> Any:
    """Factor the expression by numbers of layers."""
    from sympy import collect, factor_terms

    layers = [symbol for symbol in expression.free_symbols if symbol.name.endswith("n_layers")]
    return factor_terms(collect(expression.expand(), sorted(layers, key=str), func=factor_terms))


def activation_memory(
    model: Model, batch_size: Number, seq_len: Number, values: Mapping[Any, int] | None = None
) -> Number:
    """Bytes kept for the backward, as `archcli memory` counts them: bf16, fused attention, CUDA.

    `values` are those of the model's symbols: they decide which kernels run.
    """
    request = Request("train", batch_size, seq_len)
    return kept_bytes(trace_memory(model, request, Execution(flex=True), moments=False, values=values))
