"""A report as data: JSON with fixed names, and CSV of its rows. Numbers are exact, never rounded."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from archcli.errors import disarm

if TYPE_CHECKING:
    from archcli.measure.report import Report


SCHEMA_VERSION = 1
# what spreadsheets take for the start of a formula; the full-width signs are of East Asian keyboards
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
HARMLESS = re.compile(r"[+-]?(\d[\d.,]*)?|- ×\d.*")
"""No formulas: a number, a sign alone, and `- ×3` for a value that three layers lack."""


def document(report: Report) -> dict[str, Any]:
    """The object that --json prints."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": report.command,
        "model": dict(report.model),
        "inputs": dict(report.inputs),
        "convention": report.convention,
        "totals": dict(report.totals),
        "rows": [dict(row) for row in report.rows],
        "notes": list(report.notes),
        **({"not_modelled": list(report.not_modelled)} if report.not_modelled else {}),
    }


def as_json(report: Report) -> str:
    """The report as one JSON object, in ASCII so that it prints everywhere."""
    # NaN is no JSON: better no output than one that parsers refuse
    return inert(json.dumps(document(report), indent=2, allow_nan=False)) + "\n"


def inert(text: str) -> str:
    """Escape `##[` in JSON, which a CI runner obeys as a command in any line."""
    return text.replace("##[", "\\u0023#[")


def as_csv(report: Report) -> str:
    """The rows below a heading of all their keys; lists and objects are JSON in their cells.

    Text that a spreadsheet would take for a formula begins with an apostrophe, as it does there.
    https://owasp.org/www-community/attacks/CSV_Injection
    """
    import csv
    import io

    out = io.StringIO()
    keys = list(dict.fromkeys((*report.keys, *(key for row in report.rows for key in row))))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keys)
    writer.writerows([_cell(row.get(key)) for key in keys] for row in report.rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple | dict):
        return inert(json.dumps(value))
    if not isinstance(value, str):
        return value
    text = disarm(value)
    return f"'{text}" if text.startswith(FORMULA) and not HARMLESS.fullmatch(text) else text
