"""StagePlacement: which stage of a pipeline runs each row of a pass, and how many of its occurrences."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from fractions import Fraction

from archcli.arith import Number, whole
from archcli.graph import Row
from archcli.measure.memory.pipeline import Stage
from archcli.measure.memory.shares import layer_starts
from archcli.modules import Model
from archcli.modules.models.layers import LayerIndex, layer_count
from archcli.recording.operations import JOIN


class StagePlacement:
    """Where the rows of one traced pass run: in layers, numbered through, or at an end of the model.

    What comes before the layers the first stage runs, what comes behind them the last.
    """

    def __init__(self, model: Model, paths: Iterable[str]) -> None:
        """Place the paths of rows, in the order in which they run.

        Several layers that are alike may have rows of their own: the first of them, one in the middle, and
        the last. Each stands for the layers up to the next.
        """
        self.n_layers = layer_count(model)
        self._layers: dict[str, range] = {}
        self._behind: dict[str, bool] = {}
        self._index = LayerIndex(model)
        self._counted: dict[str, str] = {}
        starts, numbered = layer_starts(model), dict[str, tuple[str, int]]()
        for path in dict.fromkeys(paths):
            prefix = next((prefix for prefix in starts if path.startswith(prefix)), None)
            if prefix is None:
                # paths come in the order of the forward: one behind some layer is behind all of them
                self._behind[path] = bool(numbered)
            else:
                numbered[path] = prefix, int(path.removeprefix(prefix).partition(".")[0])
        traced = {prefix: sorted({n for at, n in numbered.values() if at == prefix}) for prefix in starts}
        for path, (prefix, number) in numbered.items():
            span, start = self._index.span(self.counted_path(path)), starts[prefix]
            numbers = traced[prefix]
            later = numbers[bisect_right(numbers, number) : bisect_left(numbers, span.stop)]
            end = next((n for n in later if n in span), span.stop)
            self._layers[path] = range(start + number, start + end, span.step)

    def counted_path(self, path: str) -> str:
        """The path under which counting has the row, or of a compiled kernel those of its rows."""
        if path not in self._counted:
            self._counted[path] = JOIN.join(dict.fromkeys(map(self._index.counted_path, path.split(JOIN))))
        return self._counted[path]

    def layers(self, path: str) -> range:
        """The layers that a row stands for; none for one outside of layers."""
        return self._layers.get(path, range(0))

    def place(self, path: str) -> range | bool:
        """The layers that a row stands for; for a row outside of layers whether it comes behind them."""
        return self._layers[path] if path in self._layers else self._behind[path]

    def share(self, path: str, stage: Stage) -> Fraction:
        """The part of a row's occurrences that a stage runs."""
        numbers = self._layers.get(path)
        if numbers is None:
            return Fraction(int(stage.is_last if self._behind[path] else stage.is_first))
        # no float: shares of all stages must add up to whole occurrences
        return Fraction(stage.layers_of(numbers), len(numbers))


def stage_rows(placement: StagePlacement, rows: Iterable[Row], stage: Stage) -> Iterator[tuple[Row, Number]]:
    """(row, how often a stage runs it) of the rows that it runs."""
    for row in rows:
        times = whole(row.times * placement.share(row.path, stage))
        if times:
            yield row, times
