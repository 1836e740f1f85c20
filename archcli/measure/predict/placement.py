"""StagePlacement: which stage of a pipeline runs each row of a pass, and how many of its occurrences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

from archcli.arith import Number, whole
from archcli.graph import Row
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.shares import layer_starts
from archcli.modules import Model
from archcli.modules.layers import LayerIndex
from archcli.modules.stack import stacks


class StagePlacement:
    """Where the rows of one traced pass run: in layers, numbered through, or at an end of the model.

    What comes before the layers the first stage runs, what comes behind them the last.
    """

    def __init__(self, model: Model, paths: Iterable[str]) -> None:
        """Place the paths of rows, in the order in which they run."""
        self.n_layers: int = sum(group.n_layers for _, stack in stacks(model) for group in stack.groups)
        self._layers: dict[str, range] = {}
        self._behind: dict[str, bool] = {}
        index, starts, seen = LayerIndex(model), layer_starts(model), False
        for path in paths:
            start = next((at for prefix, at in starts.items() if path.startswith(prefix)), None)
            seen = seen or start is not None
            if start is None:
                self._behind.setdefault(path, seen)
            else:
                span = index.span(path)
                self._layers[path] = range(span.start + start, span.stop + start, span.step)

    def layers(self, path: str) -> range:
        """The layers that a row stands for; none for one outside of layers."""
        return self._layers.get(path, range(0))

    def share(self, path: str, stage: Stage) -> Fraction:
        """The part of a row's occurrences that a stage runs."""
        numbers = self._layers.get(path)
        if numbers is None:
            return Fraction(int(stage.is_last if self._behind[path] else stage.is_first))
        return Fraction(stage.layers_of(numbers), len(numbers))


def stage_rows(placement: StagePlacement, rows: Iterable[Row], stage: Stage) -> Iterator[tuple[Row, Number]]:
    """(row, how often a stage runs it) of the rows that it runs."""
    for row in rows:
        times = whole(row.times * placement.share(row.path, stage))
        if times:
            yield row, times
