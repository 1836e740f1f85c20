"""Terms: the figures and sizes behind the names and calls of conditions and objectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem, closest, format_value, quote
from archcli.modules import Model
from archcli.modules.spec.base import ends_in
from archcli.query.expression import Call
from archcli.query.vocabulary import FigureName, Vocabulary
from archcli.wings.shapes.symbolic.shapes.figures import FIGURES, Settings, SweepFigure, read_settings
from archcli.wings.shapes.symbolic.symbols import sizes, suggest_size

A_TIE = "a field is tied to other sizes: d_ff=8/3*d_model@128"
Key = Any
"""A name, or a call with settings, as a parsed expression asks for it."""


class FigureTerm(NamedTuple):
    """A figure with its settings, and the name or call that its column is headed with.

    `spellings` are the names and calls that expressions ask for it by: kv_bytes(context=1K) and
    kv_bytes(context=1024) are one figure.
    """

    key: Key
    figure: SweepFigure
    settings: Settings
    spellings: tuple[Key, ...] = ()

    def spelled(self, key: Key) -> FigureTerm:
        """The same figure, asked for by a further name or call."""
        return self._replace(spellings=(*self.spellings, key))


class SweepNames(Vocabulary):
    """The names that conditions and expressions may have: fields that vary, figures, sizes of the models."""

    def __init__(
        self, varied: Iterable[str], models: Sequence[Model], slow: Iterable[SweepFigure] = ()
    ) -> None:
        self.varied = tuple(varied)
        self.figures: Mapping[str, SweepFigure] = FIGURES | {figure.name: figure for figure in slow}
        self.sizes = {path: None for model in models for path, _, _ in sizes(model)}

    def terms(self, expressions: Iterable[Any]) -> list[FigureTerm]:
        """The figures in expressions, each once. Raises ArchError with all unknown names."""
        terms: dict[Key, FigureTerm] = {}
        problems: list[Problem] = []
        for expression in expressions:
            for key in (*expression.names, *expression.calls):
                if key not in self.varied:
                    try:
                        term = self._term(key)
                        terms[term.key] = terms.get(term.key, term).spelled(key)
                    except ArchError as error:
                        place = quote(expression.text)
                        problems += [Problem(it.what, it.hint, path=place) for it in error.problems]
        if problems:
            raise ArchError(problems)
        return list(terms.values())

    def _term(self, key: Key) -> FigureTerm:
        name, settings = (key, ()) if isinstance(key, str) else (key.name, key.settings)
        figure = self.figures.get(name)
        if figure is None and isinstance(key, str) and self.is_size(key):
            figure = SweepFigure(key, "number", dict, lambda reading, _: size_of(reading.model, key))
        if figure is None:
            raise ArchError(*self.unknown(name))
        read = read_settings(figure, settings)
        return FigureTerm(Call(name, _as_text(read)) if settings else name, figure, read)

    def find(self, name: str) -> FigureName | None:
        """The unit of a name; None where it is unknown."""
        if name in self.varied or (name not in self.figures and self.is_size(name)):
            return FigureName(name, "number")
        return FigureName(name, self.figures[name].unit) if name in self.figures else None

    def find_call(self, call: Call) -> FigureName | None:
        """The unit of a figure with settings; None where there is no such figure."""
        figure = self.figures.get(call.name)
        return FigureName(call.name, figure.unit) if figure else None

    def near(self, name: str) -> str:
        """The known name that is nearest to an unknown one."""
        return next(iter(closest(name, self._known())), "")

    def unknown(self, name: str) -> tuple[str, str]:
        """(problem, hint) of a name that is not known."""
        hint = suggest_size(name, self.sizes, (*self.varied, *self.figures))
        return f"no figure or size is called {quote(name)}", hint

    def _known(self) -> list[str]:
        names = (*self.varied, *self.figures, *(path.rsplit(".", 1)[-1] for path in self.sizes))
        return list(dict.fromkeys(names))

    def is_size(self, name: str) -> bool:
        """Whether a size of a model has this name, or a path that ends so."""
        return any(ends_in(path, name.split(".")) for path in self.sizes)


def _as_text(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Settings as a call has them, each value spelled in one way."""
    return tuple((name, format_value(value)) for name, value in sorted(settings.items()))


def check_ties(ties: Mapping[str, Any], known: SweepNames, varied: Sequence[str]) -> None:
    """Raise ArchError where a tied field is not made of sizes that are known before it."""
    before = [*varied]
    for name, expression in ties.items():
        for key in (*expression.names, *expression.calls):
            problem = _tie_problem(name, key, ties, before, known)
            if problem:
                raise ArchError(Problem(*problem, path=f"--tie {name}"))
        before.append(name)


def _tie_problem(
    name: str, key: Key, ties: Mapping[str, Any], before: Sequence[str], known: SweepNames
) -> tuple[str, str] | None:
    """(problem, hint) where a name of an expression gives a tied field no value."""
    if key in before:
        return None
    if not isinstance(key, str) or not (key in ties or known.is_size(key)):
        return f"{quote(str(key))} is no size", A_TIE
    if key == name:
        return f"{quote(name)} is tied to itself", A_TIE
    if key not in ties:
        return None
    if name in _names_behind(key, ties):
        return f"{quote(name)} and {quote(key)} are tied to each other", "leave one of the two out"
    return f"{quote(key)} is not known yet", "tie it before"


def _names_behind(name: str, ties: Mapping[str, Any]) -> set[str]:
    """The names that a tied field follows from, through all ties."""
    behind: set[str] = set()
    waiting = [name]
    while waiting:
        new = {key for key in ties[waiting.pop()].names if key not in behind}
        behind |= new
        waiting += new & {*ties}
    return behind


def size_of(model: Model, name: str) -> Any:
    """The value of a size by its name or the end of its path; None where fields differ or none has it."""
    values = [value for path, _, value in sizes(model) if ends_in(path, name.split("."))]
    return values[0] if values and all(value == values[0] for value in values) else None
