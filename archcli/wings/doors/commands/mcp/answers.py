"""The answer of a tool: a report, shortened to save an assistant's context, or an error as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from archcli.errors import ArchError, shorten
from archcli.measure.report import Report
from archcli.render.findings import explain
from archcli.render.plain import opening
from archcli.wings.doors.commands.mcp.tools import Drawing, Tool

MOST_BYTES = 4096
"""Bytes of an answer as JSON, without rows=true."""
MOST_WITH_ROWS = 200_000
"""Bytes of an answer with rows=true: a context holds some hundred thousand tokens."""
NESTED_FROM = 100
"""Bytes from which a group of figures may be left out of the totals."""
RESERVED = 300
"""Bytes for the sentence on what is left out."""
LONGEST_HEADLINE = 600
MOST_NAMED = 8
TEXTS = ("not_modelled", "notes", "command", "convention")
"""Texts that are left out of a long answer, in this order."""

Answer = dict[str, Any]


def size_of(answer: Any) -> int:
    """The bytes of an answer as text."""
    return len(as_text(answer).encode())


def as_text(answer: Any) -> str:
    """An answer as the text that stands beside the structured one."""
    return json.dumps(answer, ensure_ascii=False)


def headline(report: Report) -> str:
    """The answer of a report and its settings, as sentences."""
    lines = opening(report) or [next((table.title for table in report.tables), "")]
    return " ".join(
        f"{line[:1].upper() if place else line[:1]}{line[1:].rstrip('.')}."
        for place, line in enumerate(lines)
    )


def answer_of(report: Report, line: str, tool: Tool, *, rows: bool) -> Answer:
    """The answer of a report: headline, totals, convention, notes, and the command line.

    With `rows` it has every row; of a tool that lists, the first rows that have room. `left_out` says what is
    missing.
    """
    document = report.to_dict()
    answer = {
        "headline": shorten(headline(report), LONGEST_HEADLINE),
        **{key: document.get(key, []) for key in ("totals", "convention", "notes", "not_modelled")},
        "command": line,
    }
    most = (MOST_WITH_ROWS if rows else MOST_BYTES) - RESERVED
    left_out = dict.fromkeys(_shortened(answer, most))
    all_rows = document["rows"]
    ordered = all_rows if rows else sorted(all_rows, key=lambda row: not tool.first(row))
    shown = list(_fitting(ordered, most - size_of(answer))) if rows or tool.lists else []
    answer |= {"rows": shown, "left_out": _left_out(list(left_out), len(shown), len(all_rows), rows=rows)}
    return {key: value for key, value in answer.items() if value not in ([], "") or (rows and key == "rows")}


def _shortened(answer: Answer, most: int) -> Iterator[str]:
    """Take the longest groups of figures, then texts, out of an answer until it fits; yields their names."""
    totals = answer["totals"]
    while size_of(answer) > most:
        groups = {key: size_of(value) for key, value in totals.items() if size_of(value) >= NESTED_FROM}
        if groups:
            longest = max(groups, key=lambda key: groups[key])
            del totals[longest]
            yield f"totals.{longest}"
            continue
        key = next((key for key in TEXTS if answer[key]), None)
        if key is None:
            return
        answer[key] = answer[key][:-1] if isinstance(answer[key], list) else ""
        yield key


def _fitting(rows: Sequence[Answer], room: int) -> Iterator[Answer]:
    """The first rows that have room."""
    for row in rows:
        room -= size_of(row) + len(", ")
        if room < 0:
            return
        yield row


def _left_out(names: Sequence[str], shown: int, total: int, *, rows: bool) -> str:
    """The sentence on what is left out, and how to ask for it; empty for a complete answer."""
    parts = list(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        parts.append(f"{len(names) - MOST_NAMED} more groups")
    if shown < total:
        parts.append(f"{total - shown} of {total} rows")
    if not parts:
        return ""
    more = "the command with --json has all" if rows else "ask again with rows=true"
    return f"{', '.join(parts)}; {more}."


def drawing_of(drawing: Drawing, line: str) -> Answer:
    """The answer with a drawing as text, cut below where it is too long."""
    answer = {"headline": f"{drawing.name}: a drawing to scale.", "drawing": drawing.text, "command": line}
    if drawing.svg:
        return answer | {"drawing": "the embedded SVG"}
    lines = drawing.text.splitlines()
    while size_of(answer) > MOST_BYTES - RESERVED:
        lines.pop()
        answer["drawing"] = "\n".join(lines)
        answer["left_out"] = "the last lines of the drawing; ask for fewer models, or with svg=true."
    return answer


def refusal(error: ArchError) -> str:
    """An error as text: what is wrong, where, and what to ask instead."""
    text = explain(error)
    data = text.encode()
    if len(data) <= MOST_BYTES:
        return text
    kept = data[: MOST_BYTES - RESERVED].decode(errors="ignore").rpartition("\n")[0]
    return f"{kept or text[:RESERVED]}\n{len(error.problems)} problems in all; mend these first."
