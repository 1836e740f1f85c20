"""Findings for code review: GitHub's workflow commands and SARIF 2.1.0.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
https://docs.oasis-open.org/sarif/sarif/v2.1.0/
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from string import ascii_letters, digits
from typing import TYPE_CHECKING, Any

from archcli.render.data import inert

if TYPE_CHECKING:
    from archcli.measure.report import Report

COMMAND = {"error": "error", "warning": "warning", "info": "notice"}
LEVEL = {"error": "error", "warning": "warning", "info": "note"}
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def github(report: Report) -> str:
    """A workflow command for each finding: `::warning file=…,line=…,col=…,endColumn=…,title=…::message`."""
    return "".join(_command(row) + "\n" for row in report.rows)


def _command(row: Mapping[str, Any]) -> str:
    where = row["where"]
    facts = {
        "file": where["file"],
        "line": where["line"],
        "col": where["column"],
        "endColumn": where["end_column"],
        "title": f"{row['code']} {row['title']}",
    }
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in facts.items())
    return f"::{COMMAND[row['severity']]} {properties}::{_data(_message(row))}"


def _message(row: Mapping[str, Any]) -> str:
    return "; ".join(filter(None, [row["message"], row["help"]]))


def _data(text: str) -> str:
    """Text escaped as GitHub's runner reads it; it has no escape for other control characters."""
    kept = "".join(c if c.isprintable() or c in "\r\n" else c.encode("unicode_escape").decode() for c in text)
    # % first, as the other escapes hold one (escapeData in actions/toolkit's command.ts)
    return kept.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(report: Report) -> str:
    """A SARIF run: the rules that were broken, and a result for each finding."""
    rules = {row["code"]: _rule(row) for row in report.rows}
    order = {code: i for i, code in enumerate(rules)}
    driver = {"name": "archcli", "rules": list(rules.values())}
    results = [_result(row, order[row["code"]]) for row in report.rows]
    # a Mark counts characters; SARIF's other choice are code units of UTF-16
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return inert(json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)) + "\n"


def _rule(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": row["code"],
        "shortDescription": {"text": row["title"]},
        "help": {"text": f"Source: {row['source']}"},
        "defaultConfiguration": {"level": LEVEL[row["severity"]]},
    }


def _result(row: Mapping[str, Any], index: int) -> dict[str, Any]:
    where = row["where"]
    region = {"startLine": where["line"], "startColumn": where["column"], "endColumn": where["end_column"]}
    place = {"artifactLocation": {"uri": _uri(where["file"])}, "region": region}
    return {
        "ruleId": row["code"],
        "ruleIndex": index,
        "level": LEVEL[row["severity"]],
        "message": {"text": _message(row)},
        "locations": [{"physicalLocation": place}],
    }


def _uri(file: str) -> str:
    """A path as a URI reference of RFC 3986, an absolute one as a file URI; percent-encoded byte by byte."""
    plain = set(ascii_letters + digits + "-._~/")
    start = "file://" if file.startswith("/") else ""
    return start + "".join(c if c in plain else "".join(f"%{byte:02X}" for byte in c.encode()) for c in file)
