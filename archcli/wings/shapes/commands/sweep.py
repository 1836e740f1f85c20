"""`archcli sweep`: find the shapes of an architecture that meet conditions, and the best of them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from archcli.api.asking.subject import INTERRUPTED, subject
from archcli.commands.line.options import Form, Json, Output, Set, asking
from archcli.render import show
from archcli.render.screen import progress
from archcli.render.write import tell
from archcli.wings.shapes.api.sweep_question import SweepOptions
from archcli.wings.shapes.api.swept import swept

if TYPE_CHECKING:
    from archcli.wings.shapes.symbolic.shapes.search import Tick

MANY = 10_000_000
"""More candidates than this are announced, with the time that they will take."""


@asking(SweepOptions)
def run(
    options: SweepOptions,
    *,
    overrides: Set = None,
    form: Form = None,
    as_json: Json = False,
    output: Output = None,
) -> int:
    """Find the shapes of an architecture that meet conditions.

    Every combination of --vary is counted exactly as one model is, a chunk of candidates at a time.
    Conditions and objectives may ask for any figure of params, flops, kvcache, survey, memory (peak_bytes)
    and predict (time). Ctrl-C stops and shows the best so far.
    """
    base = subject(options.model, overrides)
    with progress(f"sweeping {base.name}") as tick:
        report = swept(base, options, _telling(tick))
    show(report, form, output, as_json=as_json)
    return INTERRUPTED if report.totals["seen"] < report.totals["candidates"] else 0


def _telling(tick: Tick) -> Tick:
    """A tick that once prints the number of candidates and the time left, if there are MANY."""
    begun, announced = monotonic(), False

    def telling(what: str, done: int, total: int) -> None:
        nonlocal announced
        if total > MANY and not announced:
            announced = True
            rest = (monotonic() - begun) * (total - done) / done if done else None
            lasts = f", for about {rest / 60:,.0f} minutes" if rest else ""
            tell(f"{total:,} candidates{lasts}: Ctrl-C stops and shows the best so far.")
        tick(what, done, total)

    return telling
