"""ModelSymbols: a model whose sizes are sympy symbols, named by YAML keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import lcm
from typing import Any

from archcli.arith import repetitions
from archcli.errors import ArchError, Problem, either, suggest
from archcli.modules import Model, RopeScaling, find, substitute
from archcli.modules.models.stack import Group
from archcli.modules.spec.base import Size, Spec, ends_in, full_paths
from archcli.modules.spec.fields import Field
from archcli.modules.spec.trace import MTP
from archcli.modules.spec.values import value_type
from archcli.wings.shapes.symbolic import required

SIZE = value_type(Size).schema


def sizes(model: Model) -> Iterator[tuple[str, Spec, int | None]]:
    """(full path, its spec, value) of every field that is a size.

    The value is None where the field is left out, or holds a word: bits: dtype, group_size: row.
    """
    for path, spec in find(model, Spec):
        for name, field in spec.fields.items():
            if any(schema == SIZE for schema in _schemas(field)):
                value = getattr(spec, name)
                # symbols and arrays are sizes, too: a word alone is none
                yield f"{path}.{name}" if path else name, spec, None if isinstance(value, str) else value


def _schemas(field: Field) -> Iterator[object]:
    if field.type:
        yield field.type.schema
        yield from field.type.schema.get("anyOf", ())


def has_size(model: Model, name: str) -> bool:
    """Whether a size has this name, or a path that ends so."""
    return bool(_matching(model, name))


def fields_named(model: Model, name: str) -> list[str]:
    """Full paths of all sizes with this name or end of a path, as `--set` means it.

    Where their values differ it is the one at the top, with those that inherit it. Raises ArchError where
    there are none, or no single one.
    """
    matches = _matching(model, name)
    if not matches:
        hint = suggest_size(name, [path for path, _, _ in sizes(model)])
        raise ArchError(Problem("no size of this name", hint, path=name))
    values = {path: value for path, _, value in matches}
    if len(set(values.values())) == 1:
        return [*values]
    if name in values:
        key = name.rpartition(".")[2]
        heirs = {path for path, spec, _ in matches if spec.fields[key].inherits == name}
        return [
            path
            for path, value in values.items()
            if path == name or (path in heirs and value == values[name])
        ]
    listed = ", ".join(path if value is None else f"{path} {value}" for path, value in values.items())
    hint = f"say which by its full path: {listed}"
    raise ArchError(Problem("sizes of this name have different values", hint, path=name))


def suggest_size(name: str, paths: Iterable[str], names: Iterable[str] = ()) -> str:
    """A hint for a name of no size: full paths that it leaves steps out of, else names near to it."""
    paths = list(paths)
    if full := full_paths(paths, name.split(".")):
        return f"did you mean {either(full)}?"
    return suggest(name, dict.fromkeys((*names, *(path.rsplit(".", 1)[-1] for path in paths))))


def _matching(model: Model, name: str) -> list[tuple[str, Spec, int | None]]:
    """The sizes whose paths end in this name; none for a module of the model, such as norm or groups."""
    if name in model.fields and model.fields[name].type is None:
        return []
    return [entry for entry in sizes(model) if ends_in(entry[0], name.split("."))]


NUMBER = re.compile(r"\b\d+\b")


class ModelSymbols:
    """A model with a symbol for every size, or for those that `keeps` accepts by name.

    `of_pass` are sizes of a pass by name, such as seq_len. `model` has symbols in the place of sizes,
    `values` their numbers, `paths` the fields that each stands for. Fields of one name that differ in value
    have names with a part of their path: shared.d_ff is shared_d_ff.
    """

    def __init__(
        self, model: Model, of_pass: Mapping[str, int], keeps: Callable[[str], bool] = lambda _: True
    ) -> None:
        by_path = size_values(model)
        names = {path: name for path, name in size_names(model).items() if keeps(name)}
        self._symbols = {name: symbol(name) for name in (*filter(keeps, of_pass), *names.values())}
        self.sizes = {name: self._symbols.get(name, number) for name, number in of_pass.items()}
        self.values = {self._symbols[name]: by_path[path] for path, name in names.items()}
        self.values |= {self._symbols[name]: n for name, n in of_pass.items() if name in self._symbols}
        self.paths: dict[Any, list[str]] = {}
        for path, name in names.items():
            self.paths.setdefault(self._symbols[name], []).append(path)
        # where whole patterns fill a group, its layers are written period * count, which the period divides
        counts = {
            self._symbols[name]: (n, symbol(f"{name}/{n}")) for name, n in _periods(model, names).items()
        }
        multiples = {layers: n * count for layers, (n, count) in counts.items()}
        placed = {path: self._symbols[name] for path, name in names.items()}
        self.model = substitute(model, {path: multiples.get(size, size) for path, size in placed.items()})
        integer = required("sympy").Integer
        self._numbers = {known: integer(number) for known, number in self.values.items()}
        self._known = self._numbers | {
            count: self._numbers[layers] // n for layers, (n, count) in counts.items()
        }
        self._layers = {count: layers / n for layers, (n, count) in counts.items()}
        self._factored: dict[Any, Any] = {}
        self._tidied: dict[Any, Any] = {}
        self._unfilled: dict[Any, set[int]] = {}
        for _, group in find(self.model, Group):
            if group.n_layers in self.values and len(group.blocks) > 1:
                self._unfilled.setdefault(group.n_layers, set()).add(len(group.blocks))

    def tidied(self, expression: Any) -> Any:
        """The expression in these symbols, without floors that are exact at their values."""
        expression = required("sympy").sympify(expression)
        steps = {step: self._tidied_step(step) for step in _steps(expression)}
        return expression.xreplace({**steps, **self._layers})

    def _tidied_step(self, step: Any) -> Any:
        """A minimum or a floor, tidied; each is worked out once, however many formulas contain it."""
        if step not in self._tidied:
            self._tidied[step] = _tidy(step, self._known).xreplace(self._layers)
        return self._tidied[step]

    def factored(self, expression: Any) -> Any:
        """The expression tidied, with common factors taken out; that of many layers is worked out once."""
        if expression not in self._factored:
            self._factored[expression] = self._factor(self.tidied(expression))
        return self._factored[expression]

    def _factor(self, expression: Any) -> Any:
        """Take common factors out, once for all expressions that differ in names alone.

        Minima and floors stand as symbols meanwhile, as rebuilding them takes sympy longest.
        """
        sympy = required("sympy")
        steps = _steps(expression)
        names = sorted(expression.free_symbols, key=str)
        # no size has a slash in its name; padded with zeros, as sympy sorts by name
        places = {part: symbol(f"place/{i:04}") for i, part in enumerate((*names, *steps))}
        alike = expression.xreplace(places)
        if alike not in self._factored:
            self._factored[alike] = sympy.factor_terms(alike)
        back = {place: sympy.factor_terms(step) for step, place in places.items()}
        return self._factored[alike].xreplace(back)

    def occurrences(self, times: Any) -> Any:
        """A sum of repetitions of layers, tidied: most layers of a pattern as all layers less the others."""
        for layers in times.free_symbols & self._unfilled.keys():
            for period in self._unfilled[layers]:
                known = times.as_coefficients_dict()
                places = [repetitions(layers, period, i) for i in range(period)]
                if 2 * sum(known.get(place, 0) == 1 for place in places) > period:
                    times = times + layers - sum(places)
        return self.tidied(times)

    def value(self, expression: Any) -> Any:
        """The expression at the model's sizes."""
        return expression.xreplace(self._numbers)


def without_idle_layers(model: Model) -> Model:
    """The model without the layers of a pattern beyond its group's end, which never run."""
    patterns = {f"{path}.pattern": group.blocks for path, group in find(model, Group) if group.pattern}
    return substitute(model, patterns)


def symbol(name: str) -> Any:
    """The symbol of a size: a whole number above 0."""
    # with these assumptions sympy itself turns floor(n) into n, and Min(n, 1) into 1
    return required("sympy").Symbol(name, integer=True, positive=True)


def _steps(expression: Any) -> list[Any]:
    """The minima and floors of an expression, in an order that does not change."""
    sympy = required("sympy")
    return sorted(expression.atoms(sympy.Min, sympy.floor), key=sympy.default_sort_key)


def size_values(model: Model, *, predictions: bool = False) -> dict[str, int]:
    """Every size by full path; those of multi-token prediction where `predictions` are asked for."""
    return {
        path: value
        for path, spec, value in sizes(model)
        if value is not None and (predictions or path.split(".")[0] != MTP)
        # a RoPE scaling's only sizes are lengths of training, on which no count depends
        if not isinstance(spec, RopeScaling)
    }


def size_names(model: Model, *, predictions: bool = False) -> dict[str, str]:
    """A symbol name per path: its shortest end that has one value in all fields, as an identifier.

    Fields of layers that are told apart by their number alone share the first's name where values agree.
    """
    by_path = size_values(model, predictions=predictions)
    values: dict[str, set[int]] = {}
    for path, value in by_path.items():
        for end in _ends(path):
            values.setdefault(end, set()).add(value)
    ends: dict[str, str] = {}
    first: dict[tuple[str, int], str] = {}
    for path, value in by_path.items():
        end = next((end for end in _ends(path) if len(values[end]) == 1), path)
        if not end.endswith("n_layers") and any(step.isdigit() for step in end.split(".")):
            end = first.setdefault((NUMBER.sub("*", path), value), end)
        ends[path] = end
    taken = Counter(end.replace(".", "_") for end in set(ends.values()))
    longest = {end: path for path, end in reversed(ends.items())}
    return {
        path: (end if taken[end.replace(".", "_")] == 1 else longest[end]).replace(".", "_")
        for path, end in ends.items()
    }


def _ends(path: str) -> Iterator[str]:
    """The ends of a path that begin with a name, the shortest first."""
    steps = path.split(".")
    yield from (
        ".".join(steps[start:]) for start in reversed(range(len(steps))) if not steps[start].isdigit()
    )


def _periods(model: Model, names: Mapping[str, str]) -> dict[str, int]:
    """By the symbol of n_layers, the pattern length that must divide it."""
    periods: dict[str, int] = {}
    for path, group in find(model, Group):
        name, period = names.get(f"{path}.n_layers"), len(group.blocks)
        if name is not None and group.n_layers % period == 0:
            periods[name] = lcm(periods.get(name, 1), period)
    return {name: period for name, period in periods.items() if period > 1}


def _tidy(expression: Any, values: dict[Any, int]) -> Any:
    """Simplify: drop floors that are exact at these values, and write Min(a - 1, b - 1) + 1 as Min(a, b)."""
    from sympy import Min, floor

    def raised(*numbers: Any) -> Any:
        less = all(number.as_coeff_Add()[0] == -1 for number in numbers)
        return Min(*[number + 1 for number in numbers]) - 1 if less else Min(*numbers)

    even = expression.replace(
        floor, lambda inner: inner if inner.xreplace(values).is_integer else floor(inner)
    )
    return even.replace(Min, raised)
