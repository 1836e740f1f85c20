"""The page of errors by kind: every measured row beside what archcli predicts of it."""

from collections import defaultdict
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import load_engine
from engine_fits.asked import Row
from engine_fits.live import ENGINES, timed
from engine_fits.whole_runs import experts_of, load

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
BEGIN, END = "<!-- errors: made by benchmarks/refit.py --write -->\n", "<!-- /errors -->\n"
HEADS = ["engine", "what", "rows", "devices", "median error", "inside", "high / low", "beyond the limit"]
SERVED = {"one": "one request", "several": "several at once", "full": "full server"}
RUNS = {"one": "one sequence", "several": "several sequences", "prompt": "a prompt"}
WHAT = {"token": "a token", "first": "first token", "whole": "tokens a second", "prompt": "a prompt"}


def asked(row):
    """(engine, what, device, measured seconds, predicted ones) of a row; refused without the latter."""
    try:
        name, seconds = _answered(row)
    except ArchError:
        name, seconds = "refused", None
    return row.engine or "none", name, row.device, row.measured_s, seconds


def _answered(row):
    question = row.question
    if row.engine in ENGINES:
        kind, seconds = timed(row, question)
        *maker, what, under, model = kind.split()
        return f"{WHAT[what]}, {SERVED[under]}, {model}{', AMD' if maker else ''}", seconds
    seconds = question.answer().prediction.seconds
    return f"{RUNS[load(row)]}, {experts_of(row)}" if row.engine else "a training step", seconds


def _asked(given):
    return asked(Row(*given))


def by_kind(found):
    """The figures of each kind: rows, devices, median error, inside of those with a range, width, beyond."""
    kinds = defaultdict(list)
    for engine, name, *rest in found:
        kinds[engine, name].append(rest)
    for (engine, name), rows in sorted(kinds.items()):
        timed_rows = [(measured, seconds) for _, measured, seconds in rows if seconds is not None]
        known = [(measured, seconds) for measured, seconds in timed_rows if seconds.is_calibrated]
        errors = [abs(seconds.expected / measured - 1) for measured, seconds in known]
        inside = sum(seconds.low <= measured <= seconds.high for measured, seconds in known)
        width = [seconds.high / max(seconds.low, 1e-12) for _, seconds in known]
        beyond = sum(measured < 0.999 * seconds.floor for measured, seconds in timed_rows)
        yield [
            load_engine(engine)["title"],
            name,
            len(rows),
            len({device for device, *_ in rows}),
            f"{np.median(errors):.0%}" if known else "limit alone",
            f"{inside} of {len(known)}" if known else "",
            f"{np.median(width):.2f}" if known else "",
            beyond,
        ]


def renew(rows, *, write):
    """Ask every row, print the figures by kind, and write the table of the page if asked to."""
    with Pool() as pool:
        found = pool.map(_asked, [(row.table, row.fields) for row in rows], chunksize=8)
    figures = [[str(cell) for cell in row] for row in by_kind(found)]
    lines = [HEADS, ["---", "---", *["---:"] * (len(HEADS) - 2)], *figures]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    print(table)
    if write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")
