"""A progress bar on standard error if it is a terminal, removed at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tick = Callable[[str, int, int], None]


@contextmanager
def progress(title: str) -> Iterator[Tick]:
    """Yields a function that takes (current step, done, total)."""
    if not sys.stderr.isatty():
        yield _no_bar
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(title), total=None)
        yield lambda what, done, total: bar.update(
            task, description=escape(f"{title}: {what}"), completed=done, total=total
        )


def _no_bar(what: str, done: int, total: int) -> None:
    pass
