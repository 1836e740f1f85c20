"""Parts of a question answered by other processes: in order, and asked again where a worker is lost."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import Any

from archcli.errors import ArchError
from archcli.load.cluster import LOSSES, Cluster, connected

AHEAD = 4
"""Parts that wait for each worker."""
HINT = "memory may be short: fewer --workers; a script of yours asks below `if __name__ == '__main__'`"
ALONE = Lock()
"""Held while a part is answered: a worker of Dask has several threads, and a question caches."""


class LostError(Exception):
    """A worker is gone, or its whole cluster."""


@dataclass
class _Waiting:
    """A part that is asked, and its answer once it is there."""

    part: Any
    future: Future[Any] | None = None

    def ask(self, cluster: Cluster, packed: bytes) -> None:
        """Ask it, unless it is answered already."""
        future = self.future
        if future is None or future.cancelled() or not future.done() or future.exception() is not None:
            with _losing():
                self.future = cluster.submit(_answered, packed, self.part)

    def answer(self) -> Any:
        """Wait for the answer. Raises the error of the question, and LostError where a worker is gone."""
        with _losing():
            result = self.future.result() if self.future else b""
        answer, error = pickle.loads(result)  # noqa: S301 - of a worker that runs what this process sent
        if error is not None:
            raise error
        return answer


@contextmanager
def _losing() -> Iterator[None]:
    """An error within the block is the cluster's: those of a question come as answers."""
    try:
        yield
    except Exception as error:
        raise LostError from error


def in_order(address: str | None, workers: int, task: tuple[Any, ...], parts: Iterable[Any]) -> Iterator[Any]:
    """The answer of each part, in order; parts that a lost worker did not answer are asked again.

    task: (a function, its arguments), which gives what answers a part. address, workers: as `connected` has
    them.
    """
    packed, rest, losses = pickle.dumps(task), iter(parts), 0
    waiting = deque[_Waiting]()
    while True:
        try:
            with connected(address, workers) as cluster:
                for entry in waiting:
                    entry.ask(cluster, packed)
                while True:
                    for part in islice(rest, max(0, AHEAD * cluster.width - len(waiting))):
                        waiting.append(_Waiting(part))
                        waiting[-1].ask(cluster, packed)
                    if not waiting:
                        return
                    yield waiting[0].answer()
                    waiting.popleft()
                    losses = 0
        except LostError as error:
            losses += 1
            if losses > LOSSES:
                what = f"a part was asked {losses} times, and each time its worker was lost"
                raise ArchError(what, HINT) from error.__cause__


def _answered(packed: bytes, part: Any) -> bytes:
    """The pickled answer of a part, or the error of its question."""
    with ALONE:
        try:
            return pickle.dumps((_answering(packed)(part), None))
        except Exception as error:  # noqa: BLE001 - what a worker raises would count as its loss
            return pickle.dumps((None, error))


@lru_cache(maxsize=1)
def _answering(packed: bytes) -> Callable[[Any], Any]:
    """What answers the parts of a question in this process."""
    make, question = pickle.loads(packed)  # noqa: S301 - packed by the process that asks
    answer: Callable[[Any], Any] = make(*question)
    return answer
