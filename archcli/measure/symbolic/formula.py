"""Formula: closed forms of parameters, FLOPs and cache, counted with symbols as sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from math import lcm
from typing import Any, NamedTuple

from archcli.errors import ArchError
from archcli.measure.passes import forward_pass, prefill_pass
from archcli.measure.symbolic import required
from archcli.measure.symbolic.sizes import sizes
from archcli.modules import Model, RopeScaling, find, substitute
from archcli.modules.headings import MTP
from archcli.modules.stack import Group


class FormulaParts(NamedTuple):
    """sympy expressions in YAML keys, `batch_size` and `seq_len`, with the `values` of these symbols.

    Where fields of one name differ in value, the name carries as much of the path as tells them apart.
    Divisions that come out even in this architecture are written without rounding.
    """

    params: Any
    matmul_flops: Any
    other_flops: Any
    kv_elements: Any
    values: dict[Any, int]


class Formula(FormulaParts):
    """sympy expressions in YAML keys, `batch_size` and `seq_len`, with the `values` of these symbols.

    `kept_bytes` stands beside them when it is asked for.
    """

    find_kept: Callable[[], Any]

    @cached_property
    def kept_bytes(self) -> Any:
        """Bytes that the forward keeps for the backward: bf16, fused attention on CUDA.

        Found when first asked for, and checked like the others. It is that of
        sequences beyond all windows, and heads a multiple of 8 wide.
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


def formula(model: Model, *, batch_size: int = 1, seq_len: int = 2048, unmasked: bool = False) -> Formula:
    """The closed forms, each checked to equal the counted integer at the model's sizes.

    The values of `batch_size` and `seq_len` matter only for that check and for which divisions are even.
    """
    names, by_path = _names(model), _sizes(model)
    symbols = {name: _symbol(name) for name in ("batch_size", "seq_len", *names.values())}
    values = {symbols[name]: by_path[path] for path, name in names.items()}
    values |= {symbols["batch_size"]: batch_size, symbols["seq_len"]: seq_len}
    # where whole patterns fill a group, its layers are written period * count, which the period divides
    counts = {symbols[name]: (n, _symbol(f"{name}/{n}")) for name, n in _periods(model, names).items()}
    multiples = {layers: n * count for layers, (n, count) in counts.items()}
    placed = substitute(
        model, {path: multiples.get(symbols[name], symbols[name]) for path, name in names.items()}
    )
    known = values | {count: values[layers] // n for layers, (n, count) in counts.items()}
    back = {count: layers / n for layers, (n, count) in counts.items()}
    expressions = [
        _tidy(expression, known).subs(back)
        for expression in _read(placed, symbols["batch_size"], symbols["seq_len"], unmasked=unmasked)
    ]
    for expression, count in zip(
        expressions, _read(model, batch_size, seq_len, unmasked=unmasked), strict=True
    ):
        _require_equal(expression, expression.subs(values), count)
    params, matmul_flops, other_flops, kv_elements = map(_factored, expressions)
    result = Formula(params, matmul_flops, other_flops, kv_elements, values)

    def kept() -> Any:
        from archcli.measure.symbolic.kept import activation_memory  # rules that counts do not need

        sizes = symbols["batch_size"], symbols["seq_len"]
        expression = _tidy(activation_memory(placed, *sizes), known).subs(back)
        _require_kept(expression.subs(values), activation_memory(model, batch_size, seq_len))
        return _factored(expression)

    result.find_kept = kept
    return result


def _require_kept(value: Any, count: int) -> None:
    if value != count:
        raise ArchError(
            f"the closed form of kept bytes gives {value}, counting gives {count}",
            "it is that of sequences beyond all windows and heads a multiple of 8 wide",
        )


def _symbol(name: str) -> Any:
    return required("sympy").Symbol(name, integer=True, positive=True)


def _require_equal(expression: Any, value: Any, count: int) -> None:
    if value != count:
        raise ArchError(f"the formula {expression} gives {value}, counting gives {count}", "report this")


def _read(model: Model, batch_size: Any, seq_len: Any, *, unmasked: bool) -> Iterator[Any]:
    counted = forward_pass(model, batch_size, seq_len)
    yield from (
        counted.params(),
        *counted.flops(unmasked=unmasked),
        prefill_pass(model, batch_size, seq_len).cached(),
    )


def _sizes(model: Model) -> dict[str, int]:
    """Every size by full path, without those of RoPE scaling and MTP, which no formula contains."""
    return {
        path: value
        for path, spec, value in sizes(model)
        # a RoPE scaling's only sizes are lengths of training, on which no count depends
        if value is not None and not isinstance(spec, RopeScaling) and path.split(".")[0] != MTP
    }


def _names(model: Model) -> dict[str, str]:
    """A symbol name per path: the bare key if all its values agree, else the shortest unique suffix."""
    by_path = _sizes(model)
    kin: dict[str, list[str]] = {}
    for path in by_path:
        kin.setdefault(path.rsplit(".", 1)[-1], []).append(path)
    return {
        path: _unique_end(path, kin[bare]) if len({by_path[p] for p in kin[bare]}) > 1 else bare
        for path in by_path
        for bare in [path.rsplit(".", 1)[-1]]
    }


def _unique_end(path: str, paths: list[str]) -> str:
    steps = path.split(".")
    for start in range(len(steps) - 1, 0, -1):
        end = ".".join(steps[start:])
        if not steps[start].isdigit() and sum(f".{path}".endswith(f".{end}") for path in paths) == 1:
            return end
    return path


def _periods(model: Model, names: dict[str, str]) -> dict[str, int]:
    """By the symbol of n_layers, the pattern length that must divide it."""
    periods: dict[str, int] = {}
    for path, group in find(model, Group):
        name, period = names[f"{path}.n_layers"], len(group.blocks)
        if group.n_layers % period == 0:
            periods[name] = lcm(periods.get(name, 1), period)
    return {name: period for name, period in periods.items() if period > 1}


def _tidy(expression: Any, values: dict[Any, int]) -> Any:
    """Simplify: drop floors that are exact at these values, and write Min(a - 1, b - 1) + 1 as Min(a, b)."""
    from sympy import Min, floor, sympify

    def raised(*numbers: Any) -> Any:
        less = all(number.as_coeff_Add()[0] == -1 for number in numbers)
        return Min(*[number + 1 for number in numbers]) - 1 if less else Min(*numbers)

    even = sympify(expression).replace(
        floor, lambda inner: inner if inner.subs(values).is_integer else floor(inner)
    )
    return even.replace(Min, raised)


def _factored(expression: Any) -> Any:
    """Factor the expression by numbers of layers."""
    from sympy import collect, factor_terms

    layers = [symbol for symbol in expression.free_symbols if symbol.name.endswith("n_layers")]
    return factor_terms(collect(expression.expand(), sorted(layers, key=str), func=factor_terms))
