"""What `archcli profile -- python train.py` costs a program outside of the steps that it watches.

    python benchmarks/watched_program.py [--pairs 20]

A small training loop runs by itself and watched, in turns. Each run gives the median time of its last steps,
when nothing but a hook that counts is left; the ratio of a pair and the spread of all are printed, with the
cost of the hook by itself. The spread says what the machine's other work makes of two equal runs, and the
bounds where the median of ever more pairs would lie, 19 times in 20.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from math import comb
from pathlib import Path
from statistics import median, quantiles

PACKAGE = Path(__file__).parents[1]
STEPS, LEFT_OUT = 150, 40
"""Steps of a run, and those at its beginning that are in no figure: 13 of them are watched."""
PROGRAM = f"""
import time, torch
from torch import nn
torch.manual_seed(0)
def block():
    return nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128), nn.LayerNorm(128))
model = nn.Sequential(*(block() for _ in range(6)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
walls = []
for _ in range({STEPS}):
    start = time.perf_counter()
    loss = model(torch.randn(128, 128)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    walls.append(time.perf_counter() - start)
print(sorted(walls[{LEFT_OUT}:])[({STEPS} - {LEFT_OUT}) // 2])
"""
HOOK = """
import time, torch
from archcli.recording.program import Watching
from archcli.runtime.program.watch import Watch
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.zeros(1)
optimizer = torch.optim.SGD([weight], lr=0.1)
def best():
    def once(number=5000):
        start = time.perf_counter()
        for _ in range(number):
            optimizer.step()
        return (time.perf_counter() - start) / number
    return min(once() for _ in range(10))
alone = best()
watch = Watch(Watching(warm_up=1, steps=1), traces=False)
watch.begin()
for _ in range(10):
    optimizer.step()
print(best() - alone)
"""
WATCHED = ("-m", "archcli", "profile", "--no-ceilings", "--", "python")


def seconds(*command: str) -> float:
    """What a program prints on its last line."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def bounds(values: list[float]) -> tuple[float, float]:
    """Order statistics around the median of a sample that hold that of all with 95% or more."""
    ordered, number, outside, low = sorted(values), len(values), 1 / 2 ** len(values), 0
    # each value is on either side of the median alike: what is left out is a tail of a binomial
    while low + 1 < number // 2 and 2 * (outside + comb(number, low + 1) / 2**number) <= 0.05:
        low += 1
        outside += comb(number, low) / 2**number
    return ordered[low], ordered[-1 - low]


def main() -> None:
    """Time the pairs, and print each ratio as it comes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20)
    pairs = parser.parse_args().pairs
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "train.py"
        program.write_text(PROGRAM)
        alone, watched = [], []
        for i in range(pairs):
            turns = [(alone, ()), (watched, WATCHED)]
            for times, words in turns if i % 2 else turns[::-1]:
                times.append(seconds(*words, str(program)))
            print(f"{alone[-1] * 1e3:8.2f} ms alone {watched[-1] * 1e3:8.2f} ms watched", flush=True)
        ratios = [b / a for a, b in zip(alone, watched, strict=True)]
        # neighbours of one kind: two equal runs, as far apart in time as a pair
        equal = [later / earlier for earlier, later in pairwise(alone)]
        for name, values in (("watched / alone", ratios), ("alone / alone before", equal)):
            low, _, high = quantiles(values, method="inclusive")
            least, most = bounds(values)
            print(
                f"{name}: median {median(values):.3f}, between {least:.3f} and {most:.3f} (95%), "
                f"middle half {low:.3f} to {high:.3f}"
            )
        print(f"the hook: {seconds('-c', HOOK) * 1e6:.1f} us a step of the optimizer")


if __name__ == "__main__":
    main()
