"""Terms: what the names and calls of conditions and objectives stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archcli.errors import ArchError, Problem
from archcli.measure.sweep.figures import FIGURES, Figure, Settings, read_settings
from archcli.measure.symbolic.sizes import sizes
from archcli.modules import Model
from archcli.modules.base import ends_in
from archcli.wording import quote, suggest

Key = Any
"""A name, or a call with settings, as a parsed expression asks for it."""


class Term(NamedTuple):
    """A figure with its settings, and the name or call that an expression asks for it by."""

    key: Key
    figure: Figure
    settings: Settings

    @property
    def text(self) -> str:
        """The term as it is written."""
        return self.key if isinstance(self.key, str) else str(self.key)


class Vocabulary:
    """The names that expressions may have: fields that vary, figures, and sizes of the models."""

    def __init__(self, varied: Iterable[str], models: Sequence[Model], slow: Iterable[Figure] = ()) -> None:
        self.varied = tuple(varied)
        self.figures: Mapping[str, Figure] = {**FIGURES, **{figure.name: figure for figure in slow}}
        self.sizes = {path: None for model in models for path, _, _ in sizes(model)}

    def terms(self, expressions: Iterable[Any]) -> list[Term]:
        """The figures that expressions ask for, each once; ArchError with all that nobody knows."""
        found: dict[Key, Term] = {}
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

    def _term(self, key: Key) -> Term:
        name, settings = (key, ()) if isinstance(key, str) else (key.name, key.settings)
        figure = self.figures.get(name)
        if figure is None and isinstance(key, str) and self._is_size(key):
            figure = Figure(key, "number", (), lambda reading, _: size_of(reading.model, key))
        if figure is None:
            known = [*self.varied, *self.figures, *(path.rsplit(".", 1)[-1] for path in self.sizes)]
            raise ArchError(f"no figure or size is called {quote(name)}", suggest(name, dict.fromkeys(known)))
        return Term(key, figure, read_settings(figure, settings))

    def _is_size(self, name: str) -> bool:
        return any(ends_in(path, name.split(".")) for path in self.sizes)


def size_of(model: Model, name: str) -> Any:
    """The value of a size by its name or the end of its path; None where fields of it differ, or none is."""
    values = [value for path, _, value in sizes(model) if ends_in(path, name.split("."))]
    return values[0] if values and all(value == values[0] for value in values) else None
