"""A report in Python: HTML for notebooks, a DataFrame, LaTeX."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from types import NoneType
from typing import TYPE_CHECKING, Any

from archcli.errors import ArchError, either, install, quote, sanitize
from archcli.render.grid import Grid, grid
from archcli.render.plain import closing, opening

if TYPE_CHECKING:
    import pandas as pd

    from archcli.measure.report import Report

DTYPES = (
    ({int}, "Int64"),
    ({int, float}, "Float64"),
    ({bool}, "boolean"),
    ({str}, "string"),
)
"""Types of a column's values, and the pandas dtype that holds them beside missing ones."""

EXACT = {"Int64": 2**63, "Float64": 2**53}
"""The number up to which a dtype holds every whole number."""


def frame(report: Report, title: str | int | None = None) -> pd.DataFrame:
    """The rows of a report, or the records of a table by title or place, as a DataFrame.

    Raises ArchError without pandas.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        hint = f"report.rows holds the same records; for a DataFrame {install('pandas')}"
        raise ArchError("to_pandas needs pandas, which is not installed", hint) from None
    rows = report.rows if title is None else _records(report, title)
    keys = dict.fromkeys((*(report.keys if title is None else ()), *(key for row in rows for key in row)))
    columns = {key: [row.get(key) for row in rows] for key in keys}
    return pd.DataFrame({key: pd.Series(values, dtype=_dtype(values)) for key, values in columns.items()})


def _records(report: Report, title: str | int) -> Sequence[Mapping[str, Any]]:
    """The records of the table with a title, or at a place from 0. Raises ArchError where there is none."""
    numbered = dict[str | int, Sequence[Mapping[str, Any]]](enumerate(it.records for it in report.tables))
    if title in numbered:
        return numbered[title]
    tables = {table.title: table.records for table in report.tables}
    if title not in tables:
        named = [name for name in tables if name]
        raise ArchError(
            f"no table {quote(str(title))}", f"it has {either(named)}" if named else "leave it out"
        )
    return tables[title]


def _dtype(values: Sequence[Any]) -> Any:
    """The narrowest dtype that holds the values as they are; else object."""
    # not isinstance: a bool is an int, and would make a column of flags one of numbers
    types = {type(value) for value in values} - {NoneType}
    for known, dtype in DTYPES:
        if types and types <= known:
            largest = max((abs(value) for value in values if type(value) is int), default=0)
            return dtype if largest < EXACT.get(dtype, 2**63) else object
    return object


SCROLL = "overflow-x:auto"
NUMERIC = "text-align:right;white-space:nowrap"
WORDS = "text-align:left"


def html(report: Report) -> str:
    """The answer, its settings, every table, then the convention and the notes. Everything is escaped."""
    lines = [f"<p>{escape(line)}</p>" for line in opening(report)]
    lines[:1] = [f"<p><strong>{escape(line)}</strong></p>" for line in opening(report)[:1]]
    lines += [_drawn(grid(table)) for table in report.tables]
    lines += [f"<p><small>{escape(line)}</small></p>" for line in closing(report)]
    return "\n".join(["<div>", *lines, "</div>"]) + "\n"


def _drawn(table: Grid) -> str:
    if not table.rows and not table.footer:
        return f"<p>{escape(': '.join(filter(None, (table.title, 'nothing found'))))}</p>"
    lines = [f"<caption>{escape(table.title)}</caption>"] if table.title else []
    lines += [f"<thead>{_row('th', table.heads, table.numeric)}</thead>"] if any(table.heads) else []
    lines += ["<tbody>", *(_row("td", row, table.numeric) for row in table.rows), "</tbody>"]
    lines += [f"<tfoot>{_row('th', table.footer, table.numeric)}</tfoot>"] if table.footer else []
    return "\n".join([f'<div style="{SCROLL}"><table>', *lines, "</table></div>"])


def _row(tag: str, cells: tuple[str, ...], numeric: tuple[bool, ...]) -> str:
    drawn = "".join(_cell(tag, cell, right) for cell, right in zip(cells, numeric, strict=True))
    return f"<tr>{drawn}</tr>"


def _cell(tag: str, text: str, flush_right: bool) -> str:
    return f'<{tag} style="{NUMERIC if flush_right else WORDS}">{escape(text)}</{tag}>'


def lines_html(texts: Sequence[str]) -> str:
    """Lines, the first in bold."""
    first, *lines = map(escape, map(sanitize, texts))
    return "<br>\n".join([f"<div><strong>{first}</strong>", *lines]) + "</div>\n"


SCHEMES = """<style>
.archcli-picture { color-scheme: light; max-width: 100%; height: auto }
:is([data-jp-theme-light="false"], .vscode-dark, html[theme="dark"]) .archcli-picture { color-scheme: dark }
</style>"""
"""A picture is as wide as the output, and dark where the notebook is: JupyterLab, VS Code, Colab say so."""


def picture_html(svg: str, alt: str) -> str:
    """A drawing as a notebook shows it. An image takes its scheme from the page, and shares no styles."""
    address = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return f'{SCHEMES}\n<img class="archcli-picture" src="{address}" alt="{escape(sanitize(alt))}">\n'


def latex(report: Report) -> str:
    """The equations (amsmath), with comments that name the model and each symbol."""
    comments = [f"% {line}" for line in (*opening(report), *closing(report)) if line]
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
    text = sanitize(name).replace("_", r"\_")
    # in mathematics TeX sets a space behind a comma, as in a list
    value = f"{row['value']:,}".replace(",", r"\,")
    yield rf"\text{{{text}}} &= {row['latex']} \\"
    if row["latex_numbers"] not in {row["latex"], str(row["value"])}:
        yield rf"&= {row['latex_numbers']} \\"
    yield rf"&= {value}" + ("" if last else r" \\")
