"""Best: the candidates that are kept while a sweep goes on, by one objective or by several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archcli.measure.symbolic import required

Columns = Mapping[str, Any]
"""Arrays [N] by name, a value for each candidate."""


class Best:
    """The first N candidates in the order of the objectives, or those that none other is better than.

    With one objective they are sorted by it, without any they stay in the order of the grid. With several the
    Pareto front is kept: a candidate leaves it where another is at least as good by all objectives and better
    by one. Equals stay in the order of the grid.
    """

    def __init__(self, objectives: int, top: int | None) -> None:
        self.objectives, self.top = objectives, top
        self.keys: Any = None
        self.columns: dict[str, Any] = {}

    def add(self, keys: Sequence[Any], columns: Columns) -> None:
        """More candidates, later in the grid: what is to be small [N] by objective, and their columns."""
        np = required("numpy")
        new = _stacked(np, keys) if keys else None
        length = len(next(iter(columns.values())))
        places = self._chosen(new, length)
        new = None if new is None else new[:, places]
        merged = {name: array[places] for name, array in columns.items()}
        if self.columns:
            merged = {name: _joined(self.columns[name], array) for name, array in merged.items()}
            new = None if new is None else np.concatenate([self.keys, new], axis=1)
            places = self._chosen(new, len(next(iter(merged.values()))))
            merged = {name: array[places] for name, array in merged.items()}
            new = None if new is None else new[:, places]
        self.keys, self.columns = new, merged

    def _chosen(self, keys: Any, length: int) -> Any:
        """The places of the candidates that stay, in their order."""
        np = required("numpy")
        if keys is None:
            return np.arange(length)[: self.top]
        if len(keys) == 1:
            return np.argsort(keys[0], kind="stable")[: self.top]
        front = _front(keys)
        return front[np.lexsort((front, *keys[::-1, front]))]

    def rows(self) -> dict[str, Any]:
        """The columns of the best, as many as were asked for."""
        return {name: array[: self.top] for name, array in self.columns.items()}

    @property
    def size(self) -> int:
        """How many are held: of a Pareto front all."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


def _stacked(np: Any, keys: Sequence[Any]) -> Any:
    """Keys [K, N]; those of several objectives as floats where one needs more than 64 bits."""
    stacked = np.stack(keys)
    return stacked.astype(np.float64) if len(keys) > 1 and stacked.dtype == object else stacked


def _joined(a: Any, b: Any) -> Any:
    return required("numpy").concatenate([a, b])


def _front(keys: Any) -> Any:
    """The places of the columns of keys [K, N] that no other dominates, ascending."""
    np = required("numpy")
    order = np.lexsort((np.arange(keys.shape[1]), *keys[::-1]))
    left, front = keys[:, order], []
    places = order
    while places.size:
        # the first by all keys in turn is dominated by none that is left
        first = left[:, :1]
        front.append(places[0])
        behind = (left >= first).all(axis=0) & (left > first).any(axis=0)
        behind[0] = True
        left, places = left[:, ~behind], places[~behind]
    return np.sort(np.asarray(front, dtype=np.int64))
