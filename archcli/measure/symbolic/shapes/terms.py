"""Terms: what the names and calls of conditions and objectives stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.measure.symbolic.shapes.figures import FIGURES, Settings, SweepFigure, read_settings
from archcli.measure.symbolic.sizes import sizes
from archcli.modules import Model
from archcli.modules.base import ends_in
from archcli.query.parser import Call
from archcli.query.vocabulary import FigureName, Vocabulary
from archcli.wording import closest, quote, suggest

Key = Any
"""A name, or a call with settings, as a parsed expression asks for it."""


class FigureTerm(NamedTuple):
    """A figure with its settings, and the name or call that an expression asks for it by."""

    key: Key
    figure: SweepFigure
    settings: Settings

    @property
    def text(self) -> str:
        """The term as it is written."""
        return self.key if isinstance(self.key, str) else str(self.key)


class SweepNames(Vocabulary):
    """The names that conditions and expressions may have: fields that vary, figures, sizes of the models."""

    def __init__(
        self, varied: Iterable[str], models: Sequence[Model], slow: Iterable[SweepFigure] = ()
    ) -> None:
        self.varied = tuple(varied)
        self.figures: Mapping[str, SweepFigure] = FIGURES | {figure.name: figure for figure in slow}
        self.sizes = {path: None for model in models for path, _, _ in sizes(model)}

    def terms(self, expressions: Iterable[Any]) -> list[FigureTerm]:
        """The figures that expressions ask for, each once; ArchError with all that nobody knows."""
        found: dict[Key, FigureTerm] = {}
        problems: list[Problem] = []
        for expression in expressions:
            for key in (*expression.names, *expression.calls):
                if key not in found and key not in self.varied:
                    try:
                        found[key] = self._term(key)
                    except ArchError as error:
                        place = quote(expression.text)
                        problems += [Problem(it.what, it.hint, path=place) for it in error.problems]
        if problems:
            raise ArchError(problems)
        return list(found.values())

    def _term(self, key: Key) -> FigureTerm:
        name, settings = (key, ()) if isinstance(key, str) else (key.name, key.settings)
        figure = self.figures.get(name)
        if figure is None and isinstance(key, str) and self.is_size(key):
            figure = SweepFigure(key, "number", (), lambda reading, _: size_of(reading.model, key))
        if figure is None:
            raise ArchError(*self.unknown(name))
        return FigureTerm(key, figure, read_settings(figure, settings))

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
        return f"no figure or size is called {quote(name)}", suggest(name, self._known())

    def _known(self) -> list[str]:
        names = (*self.varied, *self.figures, *(path.rsplit(".", 1)[-1] for path in self.sizes))
        return list(dict.fromkeys(names))

    def is_size(self, name: str) -> bool:
        """Whether a size of a model has this name, or a path that ends so."""
        return any(ends_in(path, name.split(".")) for path in self.sizes)


def check_tie(name: str, expression: Any, known: SweepNames, before: Sequence[str]) -> None:
    """Raise ArchError where a tied field is not made of sizes that are known before it."""
    for key in (*expression.names, *expression.calls):
        later = key in known.varied and key not in before
        if later or not (key in before or (isinstance(key, str) and known.is_size(key))):
            what = f"{quote(str(key))} is {'not known yet' if later else 'no size'}"
            hint = "tie it before" if later else "a field is tied to sizes: d_ff=8/3*d_model@128"
            raise ArchError(Problem(what, hint, path=f"--tie {name}"))


def size_of(model: Model, name: str) -> Any:
    """The value of a size by its name or the end of its path; None where fields of it differ, or none is."""
    values = [value for path, _, value in sizes(model) if ends_in(path, name.split("."))]
    return values[0] if values and all(value == values[0] for value in values) else None
