"""LaTeX of an explanation: an aligned equation for each component, its numbers below its symbols."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from archcli.render.plain import closing, heading
from archcli.wording import sanitize

if TYPE_CHECKING:
    from archcli.measure.report import Report


def latex(report: Report) -> str:
    """The equations (amsmath), between comments that say what they are of and what each symbol means."""
    comments = [f"% {line}" for line in (heading(report), *closing(report)) if line]
    legend = [
        f"% {entry['symbol']} = {entry['value']}: {sanitize(entry['meaning'])}"
        for entry in report.totals["legend"]
    ]
    equations = [line for row in report.rows for line in _equation(row["component"], row)]
    equations += _equation("total", report.totals, last=True)
    lines = [comments[0], *legend, r"\begin{align*}", *equations, r"\end{align*}", *comments[1:]]
    return "\n".join(lines) + "\n"


def _equation(name: str, row: Mapping[str, Any], *, last: bool = False) -> Iterator[str]:
    r"""A formula, the same with numbers, and the value; a line `\\` between each two."""
    words = sanitize(name).replace("_", r"\_")
    value = f"{row['value']:,}".replace(",", r"\,")
    yield rf"\text{{{words}}} &= {row['latex']} \\"
    if row["latex_numbers"] not in {row["latex"], str(row["value"])}:
        yield rf"&= {row['latex_numbers']} \\"
    yield rf"&= {value}" + ("" if last else r" \\")
