"""What `archcli profile -- python train.py` costs a program outside of the steps that it watches.

    python benchmarks/watched_program.py [--pairs 20] [--output FILE.csv]

A small training loop runs by itself and watched, in turns, in one thread. Each run gives the median time of
its last steps, when nothing but a hook that counts is left; the ratio of a pair and the spread of all are
printed. The spread says what the machine's other work makes of two equal runs, and the bounds where the
median of ever more pairs would lie, 19 times in 20. In one process, where two runs differ less, blocks of
steps follow each other with that hook and without it. Last, the cost of the hook by itself.
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
MODEL = """
import time, torch
from torch import nn
torch.manual_seed(0)
def block():
    return nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128), nn.LayerNorm(128))
model = nn.Sequential(*(block() for _ in range(6)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step():
    start = time.perf_counter()
    loss = model(torch.randn(128, 128)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return time.perf_counter() - start
"""
PROGRAM = f"""{MODEL}
walls = [step() for _ in range({STEPS})]
print(sorted(walls[{LEFT_OUT}:])[({STEPS} - {LEFT_OUT}) // 2])
"""
BLOCKS = f"""{MODEL}
from statistics import median
from torch.optim.optimizer import register_optimizer_step_post_hook
from archcli.wings.running.recording.program import Watching
from archcli.wings.running.runtime.program.watch import Watch
watch = Watch(Watching())
watch.begin()
for _ in range({LEFT_OUT}):
    step()
assert watch.complete
for i in range(PAIRS):
    block = {{}}
    for hooked in (i % 2, 1 - i % 2):
        watch._handles[0].remove()
        if hooked:
            watch._handles = [register_optimizer_step_post_hook(watch._stepped)]
        block[hooked] = median(step() for _ in range(20))
    print(block[1] / block[0])
"""
HOOK = """
import time, torch
from archcli.wings.running.recording.program import Watching
from archcli.wings.running.runtime.program.watch import Watch
weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.zeros(1)
optimizer = torch.optim.SGD([weight], lr=0.1)
def best():
    def once(number=5000):
        start = time.thread_time()
        for _ in range(number):
            optimizer.step()
        return (time.thread_time() - start) / number
    return min(once() for _ in range(10))
alone = best()
watch = Watch(Watching(warm_up=1, steps=1), traces=False)
watch.begin()
for _ in range(10):
    optimizer.step()
print(best() - alone)
"""
WATCHED = ("-m", "archcli", "profile", "--no-ceilings", "--", "python")


def seconds(*command: str) -> tuple[float, ...]:
    """The numbers that a program prints."""
    # `python` behind `--` is this one
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PACKAGE), "PATH": path}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
    )
    return tuple(float(word) for word in done.stdout.split())


def bounds(values: list[float]) -> tuple[float, float]:
    """Order statistics around the median of a sample that hold that of all with 95% or more."""
    ordered, number, outside, low = sorted(values), len(values), 1 / 2 ** len(values), 0
    # each value is on either side of the median alike: what is left out is a tail of a binomial
    while low + 1 < number // 2 and 2 * (outside + comb(number, low + 1) / 2**number) <= 0.05:
        low += 1
        outside += comb(number, low) / 2**number
    return ordered[low], ordered[-1 - low]


def say(name: str, values: list[float]) -> None:
    """Print the median of ratios, its bounds, and their middle half."""
    low, _, high = quantiles(values, method="inclusive")
    least, most = bounds(values)
    print(
        f"{name}: median {median(values):.3f}, between {least:.3f} and {most:.3f} (95%), "
        f"middle half {low:.3f} to {high:.3f}"
    )


def main() -> None:
    """Time the pairs, and print each as it comes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--output", type=Path, help="also write the times of all pairs, as CSV")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "train.py"
        program.write_text(PROGRAM)
        alone, watched = [], []
        for i in range(options.pairs):
            turns = [(alone, ()), (watched, WATCHED)]
            for times, words in turns if i % 2 else turns[::-1]:
                times.append(seconds(*words, str(program))[-1])
            print(f"{alone[-1] * 1e3:8.2f} ms alone {watched[-1] * 1e3:8.2f} ms watched", flush=True)
    say("watched / alone", [b / a for a, b in zip(alone, watched, strict=True)])
    # neighbours of one kind: two equal runs, as far apart in time as a pair
    say("alone / alone before", [later / earlier for earlier, later in pairwise(alone)])
    say(
        "with the hook / without it, in one process",
        [*seconds("-c", BLOCKS.replace("PAIRS", str(options.pairs)))],
    )
    print(f"the hook: {seconds('-c', HOOK)[0] * 1e6:.1f} us a step of the optimizer")
    if options.output is not None:
        rows = [f"{1e3 * a:.2f},{1e3 * b:.2f}" for a, b in zip(alone, watched, strict=True)]
        head = "alone_ms,watched_ms"
        options.output.write_text("\n".join((head, *rows)) + "\n")


if __name__ == "__main__":
    main()
