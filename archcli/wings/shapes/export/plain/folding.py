"""Lines that repeat for one layer after another, as a loop."""

from __future__ import annotations

import re
from collections import Counter

NUMBER = re.compile(r"self\.(\w+)\[(\d+)\]")
MOST = 12
"""The longest pattern of layers that is looked for."""


def folded(lines: list[str], counts: Counter[str]) -> list[str]:
    """The lines, with those that repeat for one layer after another as a loop."""
    result, at = [], 0
    while at < len(lines):
        if not NUMBER.search(lines[at]):
            result.append(lines[at])
            at += 1
            continue
        period, times = max(
            ((p, _times(lines, at, p)) for p in range(1, MOST)), key=lambda it: it[0] * (it[1] - 1)
        )
        if times > 1:
            of = lines[at : at + period]
            result += _loop(of, times, counts, twins=of == lines[at + period : at + 2 * period])
            at += period * times
        else:
            result.append(lines[at])
            at += 1
    return result


def _times(lines: list[str], at: int, period: int) -> int:
    """How often the `period` lines repeat, each time with numbers of layers that are larger by as many."""
    first = lines[at : at + period]
    numbers = [int(n) for line in first for _, n in NUMBER.findall(line)]
    if not numbers or len(first) < period:
        return 0
    for step in (max(numbers) - min(numbers) + 1, 0):
        times = 1
        while [_moved(x, step * times) for x in first] == lines[
            at + period * times : at + period * (times + 1)
        ]:
            times += 1
        if times > 1:
            return times
    return 1


def _moved(line: str, by: int) -> str:
    return NUMBER.sub(lambda match: f"self.{match[1]}[{int(match[2]) + by}]", line)


def _loop(lines: list[str], times: int, counts: Counter[str], *, twins: bool) -> list[str]:
    if twins:
        return [f"for _ in range({times}):", *(f"    {line}" for line in lines)]
    numbers = [int(n) for line in lines for _, n in NUMBER.findall(line)]
    (start, stop), of = (min(numbers), max(numbers) + 1), next(iter(NUMBER.findall(" ".join(lines))))[0]
    step = stop - start
    if len(lines) == 1:
        bounds = f"{start or ''}:{'' if start + times == counts[of] else start + times}"
        part = f"self.{of}" if bounds == ":" else f"self.{of}[{bounds}]"
        return [f"for layer in {part}:", f"    {NUMBER.sub('layer', lines[0])}"]
    named = [NUMBER.sub(lambda m: f"self.{m[1]}[{_place(int(m[2]) - start)}]", line) for line in lines]
    return [f"for i in range({start}, {start + step * times}, {step}):", *(f"    {line}" for line in named)]


def _place(offset: int) -> str:
    return f"i + {offset}" if offset else "i"
