"""Traces of requests in files: CSV with a heading, or a JSON record in each line.

Forms by the names of their columns: Mooncake's (JSON lines, milliseconds), Azure's (dates), BurstGPT's and
vidur's (seconds), BLIS's (microseconds), and arrival_s, prompt, new. Without arrivals all come at once.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any

from archcli.errors import ArchError, either
from archcli.load.yaml.text import decode, read_start

MOST_BYTES = 1 << 28
PROMPT = ("prompt", "input_length", "contexttokens", "num_prefill_tokens", "request tokens", "input_tokens")
NEW = ("new", "output_length", "generatedtokens", "num_decode_tokens", "response tokens", "output_tokens")
ARRIVAL = {"arrival_s": 1.0, "arrived_at": 1.0, "arrival_time_us": 1e6, "timestamp": 1.0}
"""Columns of arrivals, and how many of their unit are a second; a `timestamp` in JSON is in milliseconds."""
MILLI = 1e3


def read_trace(path: Path, rate: float | None = None) -> list[tuple[float, int, int]]:
    """Arrival in seconds, prompt and new tokens of the requests of a file, the first at 0 seconds.

    With a `rate` their arrivals are as far apart as makes it. Raises ArchError at the line that is wrong.
    """
    rows = list(_rows(path))
    if not rows:
        raise ArchError(
            f"{path} has no requests", "a heading such as arrival_s,prompt,new and lines of numbers"
        )
    begin = min(at for at, _, _ in rows)
    requests = sorted((at - begin, prompt, new) for at, prompt, new in rows)
    span = requests[-1][0]
    if rate is None:
        return requests
    if not span:
        raise ArchError(f"{path} states no arrivals to be paced by --rate", "leave --rate out")
    factor = (len(requests) - 1) / span / rate
    return [(factor * at, prompt, new) for at, prompt, new in requests]


def _rows(path: Path) -> Iterator[tuple[float, int, int]]:
    lines = decode(read_start(path, str(path), MOST_BYTES), str(path)).splitlines()
    is_json = bool(lines) and lines[0].lstrip().startswith("{")
    records = _json(lines, path) if is_json else csv.DictReader(lines)
    for number, record in enumerate(records, 1 if is_json else 2):
        place = f"{path}:{number}"
        known = {str(name).strip().lower(): value for name, value in record.items()}
        prompt, new = _tokens(known, PROMPT, place), _tokens(known, NEW, place)
        yield _arrival(known, place, is_json=is_json), prompt, new


def _json(lines: list[str], path: Path) -> Iterator[Mapping[str, Any]]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ArchError(f"{path}:{number} is no JSON record", '{"timestamp": 0, "input_length": 900, …}')
        yield record


def _tokens(record: Mapping[str, Any], names: tuple[str, ...], place: str) -> int:
    name = next((name for name in names if name in record), None)
    if name is None:
        raise ArchError(f"{place} has no column {either(names)}", "a heading such as arrival_s,prompt,new")
    try:
        tokens = int(record[name])
    except (TypeError, ValueError):
        tokens = 0
    if tokens < 1:
        raise ArchError(
            f"{place}: {name} is {record[name]!r}, not a number of tokens above 0", "mend the line"
        )
    return tokens


def _arrival(record: Mapping[str, Any], place: str, *, is_json: bool) -> float:
    """Seconds of an arrival; 0 where the file states none."""
    name = next((name for name in ARRIVAL if name in record), None)
    if name is None:
        return 0.0
    text = str(record[name]).strip()
    value = _number(text)
    if value is None or value < 0 or not isfinite(value):
        raise ArchError(f"{place}: {name} is {text!r}, not a time of 0 or later", "mend the line")
    return value / (MILLI if is_json and name == "timestamp" else ARRIVAL[name])


def _number(text: str) -> float | None:
    """A number, or the seconds of a date, which is of UTC unless it says another zone; None of neither."""
    with suppress(ValueError):
        return float(text)
    with suppress(ValueError):
        date = datetime.fromisoformat(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    return None
