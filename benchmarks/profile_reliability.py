"""Does `archcli profile` tell a disturbed machine from a quiet one?

    python benchmarks/profile_reliability.py                # ten runs of each, in turns: about 15 minutes
    python benchmarks/profile_reliability.py --runs 3

Profiles gpt2 on a machine without other work, and beside a busy loop for every processor. The loops have the
lowest priority and sessions of their own, as jobs of another terminal have: Linux then shares the processors
by session, and the priority counts for little. Prints a Markdown table; with --strict, exits 1 where a
disturbed run is called reliable, or fewer than nine in ten quiet ones are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from archcli.wings.serving.recorded.machine import usable_processors

BUSY_LOOP = "import os\nos.nice(19)\nwhile True: pass"
LEAST_QUIET = 0.9
HEADS = (
    "machine",
    "reliable",
    "wall, median",
    "fastest to slowest",
    "of quiet",
    "others",
    "waited",
    "spread",
)
Totals = dict[str, Any]


@contextmanager
def busy_loops(number: int) -> Iterator[None]:
    """So many busy processes of lowest priority, each in a session of its own."""
    command = [sys.executable, "-c", BUSY_LOOP]
    loops = [subprocess.Popen(command, start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def profiled(model: str) -> Totals:
    """The totals of a profile in a process of its own."""
    command = [sys.executable, "-m", "archcli", "profile", model, "--no-ceilings", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    totals: Totals = json.loads(done.stdout)["totals"]
    return totals


def measured(model: str, runs: int, loops: int) -> dict[str, list[Totals]]:
    """Runs on a quiet machine and beside busy loops, in turns."""
    totals: dict[str, list[Totals]] = {"quiet": [], f"{loops} busy loops": []}
    for i in range(runs):
        for name, number in zip(totals, (0, loops), strict=True):
            with busy_loops(number):
                totals[name].append(profiled(model))
            last = totals[name][-1]
            print(
                f"{i + 1} of {runs}, {name}: reliable {last['reliable']}", *last["warnings"], file=sys.stderr
            )
    return totals


def middle(totals: list[Totals], key: str) -> float | None:
    """The median of a figure of the disturbance over the runs that have it."""
    known = [run["disturbance"][key] for run in totals if run["disturbance"][key] is not None]
    return median(known) if known else None


def line(name: str, totals: list[Totals], quiet_s: float) -> Iterator[str]:
    """The cells of a line of the table."""
    walls = [run["wall_s"] for run in totals]
    others, waited, spread = (middle(totals, key) for key in ("others", "waited_share", "spread"))
    yield name
    yield f"{sum(run['reliable'] for run in totals)} of {len(totals)}"
    yield f"{median(walls) * 1e3:.0f} ms"
    yield f"{min(walls) * 1e3:.0f} to {max(walls) * 1e3:.0f} ms"
    yield f"{median(walls) / quiet_s:.1f}"
    yield "?" if others is None else f"{others:.2f} processors"
    yield "?" if waited is None else f"{waited:.1%}"
    yield "?" if spread is None else f"{spread:.1%}"


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="runs of each kind (10)")
    parser.add_argument("--model", default="gpt2", help="what is profiled (gpt2)")
    parser.add_argument("--loops", type=int, default=len(usable_processors()), help="one a processor")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a verdict is wrong")
    options = parser.parse_args()
    by_name = measured(options.model, options.runs, options.loops)
    quiet, disturbed = by_name
    quiet_s = median(run["wall_s"] for run in by_name[quiet])
    print(f"| {' | '.join(HEADS)} |\n|---|{'---:|' * (len(HEADS) - 1)}")
    for name, totals in by_name.items():
        print(f"| {' | '.join(line(name, totals, quiet_s))} |")
    right = sum(run["reliable"] for run in by_name[quiet]) >= LEAST_QUIET * options.runs
    wrong = any(run["reliable"] for run in by_name[disturbed])
    return int(options.strict and (wrong or not right))


if __name__ == "__main__":
    sys.exit(main())
