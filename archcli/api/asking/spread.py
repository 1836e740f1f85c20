"""Independent parts of a question, answered by several processes or a cluster, in their order."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from threading import Lock
from typing import Annotated, Any, TypeVar

from archcli.api.asking.question import Option, count_option
from archcli.errors import ArchError
from archcli.load.cluster import LOSSES, Cluster, connected
from archcli.modules.spec.values import AboveZero

P = TypeVar("P")
R = TypeVar("R")
Workers = Annotated[AboveZero, count_option("Processes that answer parts of the question.", rare=True)]
On = Annotated[
    str | None,
    Option(
        "A cluster of yours that answers them: ray://HOST:10001, auto (Ray on this machine) or "
        "dask://HOST:8786.",
        metavar="ADDRESS",
        reads="text",
        rare=True,
    ),
]
AHEAD = 4
"""Parts that wait for each worker."""
HINT = "memory may be short: fewer --workers; a script of yours asks below `if __name__ == '__main__'`"
ALONE = Lock()
"""Held while a part is answered: a worker of Dask has several threads, and a question caches."""


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Where the parts of a question are answered: in this process, in several, or on a cluster."""

    workers: Workers = 1
    on: On = None

    def answers(
        self, make: Callable[..., Callable[[P], R]], question: tuple[Any, ...], parts: Iterable[P]
    ) -> Iterator[R]:
        """`make(*question)(part)` of each part in order; `make` is called once in each process.

        `make` is a function of a module, and what it is called with and answers can be pickled. A part whose
        worker is lost is asked again. Raises ArchError for a cluster that does not answer.
        """
        if self.on is None and self.workers == 1:
            yield from map(make(*question), parts)
            return
        if self.on is not None and self.workers != 1:
            raise ArchError("--workers are processes here, and --on names a cluster", "leave one of them out")
        packed = pickle.dumps((make, question))
        for result, error in in_order(partial(connected, self.on, self.workers), packed, parts):
            if error is not None:
                raise error
            yield result


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
        """Wait for the answer. Raises LostError where nobody gives it any more."""
        with _losing():
            return self.future and self.future.result()


@contextmanager
def _losing() -> Iterator[None]:
    """An error within the block is the cluster's: those of a question come as answers."""
    try:
        yield
    except Exception as error:
        raise LostError from error


def in_order(
    connect: Callable[[], AbstractContextManager[Cluster]], packed: bytes, parts: Iterable[Any]
) -> Iterator[tuple[Any, Exception | None]]:
    """(answer, error) of each part in order; what lost workers did not answer is asked again."""
    rest, waiting, losses = iter(parts), deque[_Waiting](), 0
    while True:
        try:
            with connect() as cluster:
                for entry in waiting:
                    entry.ask(cluster, packed)
                while True:
                    for part in islice(rest, max(0, AHEAD * cluster.width - len(waiting))):
                        waiting.append(_Waiting(part))
                        waiting[-1].ask(cluster, packed)
                    if not waiting:
                        return
                    answer = waiting[0].answer()
                    waiting.popleft()
                    losses = 0
                    yield answer
        except LostError as error:
            losses += 1
            if losses > LOSSES:
                what = f"a part was asked {losses} times, and each time its worker was lost"
                raise ArchError(what, HINT) from error.__cause__


def _answered(packed: bytes, part: Any) -> tuple[Any, Exception | None]:
    """The answer of a part, or the error of its question."""
    with ALONE:
        try:
            return _answering(packed)(part), None
        except Exception as error:  # noqa: BLE001 - what a worker raises would count as its loss
            return None, error


@lru_cache(maxsize=1)
def _answering(packed: bytes) -> Callable[[Any], Any]:
    """What answers the parts of a question in this process."""
    make, question = pickle.loads(packed)  # noqa: S301 - packed by the process that asks
    answer: Callable[[Any], Any] = make(*question)
    return answer
