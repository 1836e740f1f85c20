"""Where the independent parts of a question are answered: in several processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from archcli.api.asking.question import Option, count_option
from archcli.errors import ArchError
from archcli.modules.spec.values import AboveZero

P = TypeVar("P")
R = TypeVar("R")
Workers = Annotated[AboveZero, count_option("Processes that share the work.", rare=True)]
On = Annotated[
    str | None,
    Option(
        "A cluster of yours that does the work: ray://HOST:10001, auto (Ray on this machine), "
        "dask://HOST:8786.",
        metavar="ADDRESS",
        reads="text",
        rare=True,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Where the parts of a question are answered: in this process, in several, or on a cluster."""

    workers: Workers = 1
    on: On = None

    @property
    def spreads(self) -> bool:
        """Whether other processes answer."""
        return self.on is not None or self.workers > 1

    def answers(
        self, make: Callable[..., Callable[[P], R]], question: tuple[Any, ...], parts: Iterable[P]
    ) -> Iterator[R]:
        """`make(*question)(part)` of each part in order; `make` is called once in each process.

        `make` is a function of a module, and what it is called with and answers can be pickled. A part whose
        worker is lost is asked again. Raises ArchError for a cluster that does not answer.
        """
        if not self.spreads:
            yield from map(make(*question), parts)
            return
        if self.on is not None and self.workers > 1:
            raise ArchError("--workers are processes here, and --on names a cluster", "leave one of them out")
        from archcli.api.asking.in_order import in_order  # of several processes alone

        yield from in_order(self.on, self.workers, (make, question), parts)
