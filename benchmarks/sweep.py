"""Candidates that `archcli sweep` counts in a second, beside a loop over single models, and its memory.

usage: python benchmarks/sweep.py [--rounds N] [--large N] [--strict]

Each candidate has its parameters, cache per token and three ratios counted and judged by conditions. The loop
counts the same figures of the same candidates, one model after the other. Memory is the largest resident size
of a process that sweeps 10^6 candidates, and of one that sweeps --large (10^8; 0 leaves it out). Prints a
table of targets; with --strict, exits 1 where one is missed.
"""

from __future__ import annotations

import argparse
import random
import resource
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

from archcli.api.asking.subject import given
from archcli.wings.shapes.api.sweep_question import SweepOptions, built_sweep
from archcli.wings.shapes.symbolic.shapes.figures import Reading
from archcli.wings.shapes.symbolic.shapes.grid import Structure
from archcli.wings.shapes.symbolic.shapes.search import SweepQuestion, search

MODEL = "llama-3.1-8b"
FIGURES = ("params", "kv_bytes_per_token", "aspect_ratio", "d_ff_ratio", "head_ratio")
CONDITIONS = (
    "params in 7e9±1%",
    "kv_bytes_per_token <= 128KiB",
    "aspect_ratio in 80..150",
    "d_ff_ratio in 2..4",
    "head_ratio >= 0.5",
)
LOOPED = 400
"""Candidates that the loop counts in each round."""


class Target(NamedTuple):
    """A figure, and the least or the most that it should be."""

    what: str
    value: float
    least: float = 0.0
    most: float = float("inf")

    @property
    def met(self) -> bool:
        """Whether the figure is within its bounds."""
        return self.least <= self.value <= self.most


def question(candidates: int) -> SweepQuestion:
    """The sweep of about so many candidates of the shape of Llama."""
    widths = max(1, round(candidates / (48 * 4 * 65)))
    vary = (f"d_ff=4096:{4096 + 16 * (widths - 1)}:16", "n_layers=17:64", "n_kv_heads=1,2,4,8")
    vary += ("d_model=2048:10240:128",)
    options = SweepOptions(MODEL, vary=vary, where=CONDITIONS, minimize=("params",))
    return built_sweep(given(MODEL).model, options).question


def per_second(asked: SweepQuestion) -> float:
    """Candidates that a search counts in a second."""
    start = time.perf_counter()
    outcome = search(asked)
    return outcome.tally.seen / (time.perf_counter() - start)


def looped_per_second(structure: Structure, draw: random.Random) -> float:
    """Candidates that a loop counts in a second, one model with plain numbers after the other."""
    places = [draw.randrange(structure.grid.size) for _ in range(LOOPED)]
    sizes = [
        {name: int(array[0]) for name, array in structure.grid.chunk(place, place + 1).items()}
        for place in places
    ]
    start = time.perf_counter()
    for row in sizes:
        reading = Reading(structure.sized(row))
        _ = reading.params["params"], *(reading.column(key) for key in FIGURES[1:])
    return LOOPED / (time.perf_counter() - start)


def resident_mib(candidates: int) -> tuple[float, float]:
    """(largest resident MiB, seconds) of a process that sweeps so many candidates."""
    start = time.perf_counter()
    command = [sys.executable, __file__, "--alone", str(candidates)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout), time.perf_counter() - start


def targets(rounds: int, large: int) -> list[Target]:
    """Measure in turns, and memory in processes of their own."""
    asked, draw = question(2_000_000), random.Random(0)  # noqa: S311
    structure = asked.structures[0]
    swept, looped = [], []
    for _ in range(rounds):
        swept.append(per_second(asked))
        looped.append(looped_per_second(structure, draw))
    speed, loop = statistics.median(swept), statistics.median(looped)
    found = [
        Target("million candidates a second", speed / 1e6, least=2.0),
        Target("times as fast as a loop over single models", speed / loop, least=100.0),
    ]
    if large:
        small, _ = resident_mib(10**6)
        most, seconds = resident_mib(large)
        print(f"{large:,} candidates in {seconds:.0f} s: {most:.0f} MiB, 1,000,000 in {small:.0f} MiB")
        found.append(Target("MiB more for these than for a million", most - small, most=32.0))
    return found


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each side (5)")
    parser.add_argument("--large", type=int, default=10**8, help="candidates of the largest sweep (10^8)")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        per_second(question(options.alone))
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return 0
    measured = targets(options.rounds, options.large)
    for target in measured:
        bound = f"at most {target.most:g}" if target.least == 0 else f"at least {target.least:g}"
        print(f"{target.what:45} {target.value:10.2f} {bound:>14} {'pass' if target.met else 'FAIL'}")
    return int(options.strict and not all(target.met for target in measured))


if __name__ == "__main__":
    sys.exit(main())
