"""Times of archcli's commands over those of torch's start and torch's count of the same model.

usage: python benchmarks/startup.py [--rounds N] [--strict]

Whole commands are run N times, in turns so that a busy moment touches all of them, and compared by their
medians. Traces, plans and the sweep are timed in this process. Prints a table of targets; with --strict,
exits 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import archcli
from archcli.graph.kept import Execution
from archcli.measure.passes import forward_pass
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.traced import trace_memory
from archcli.wings.shapes.symbolic.sweep import sweep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
from different_layers import different_layers  # written for the tests, too

PRESETS = sorted(path.stem for path in (Path(__file__).parents[1] / "presets").glob("*.yaml"))
CANDIDATES = 1_000_000
PLANNED_FOR = "1024xh100-sxm"
ONE_LAYER = "llama-3.1-8b"
DIFFERENT = 700
OF_LAYERS = (
    ("flops", "--phase", "decode"),
    ("kvcache", "--memory", "800GB"),
    ("memory", "--phase", "train", "--device", "h100-sxm"),
    ("memory", "--phase", "serve", "--memory", "800GB"),
    ("predict", "--device", "h100-sxm"),
    ("predict", "--device", "h100-sxm", "--phase", "train"),
    ("scale", "--params", "10B"),
)

AT_MOST = {"llama-3.1-8b": 1.4, "jamba-1.5-mini": 2.0, "kimi-linear-48b-a3b": 2.0, "gemma-3n-e2b": 2.0}
"""The most CPU time of `predict` over that of `params`: of a usual model, and of those with most to trace."""

LISTS = {"fit --device rtx-3090": 8.0, "choose llama-3.1-8b": 12.0}
"""The most CPU time of many models on a device, or a model on all devices, over that of `params` of one."""

# transformers' own class on the meta device, counted by torch's own counter: the same figures for someone who
# has no archcli. The mask of ones keeps transformers from looking at the values of positions, which meta
# tensors do not have; batched_mm is the form of the experts that runs there.
WITNESS = """
import json, sys, torch, transformers
from torch.utils.flop_counter import FlopCounterMode
config = getattr(transformers, sys.argv[1])(**json.loads(sys.argv[2]))
experts = {"experts_implementation": "batched_mm"} if hasattr(config, "n_routed_experts") else {}
with torch.device("meta"):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", **experts)
    tokens = torch.zeros(1, 2048, dtype=torch.long)
with torch.no_grad(), FlopCounterMode(display=False) as counter:
    model(tokens, attention_mask=torch.ones_like(tokens), use_cache=False)
print(json.dumps({"params": sum(p.numel() for p in model.parameters()), "flops": counter.get_total_flops()}))
"""
# Shapes of arXiv:2407.21783 table 3; the defaults of DeepseekV3Config are those of arXiv:2412.19437.
LLAMA_405B = {
    "vocab_size": 128256,
    "hidden_size": 16384,
    "intermediate_size": 53248,
    "num_hidden_layers": 126,
    "num_attention_heads": 128,
    "num_key_value_heads": 8,
}
COMMANDS = {
    "import torch": ["-c", "import torch"],
    "params llama-3.1-405b": ["-m", "archcli", "params", "llama-3.1-405b", "--json"],
    "params deepseek-v3": ["-m", "archcli", "params", "deepseek-v3", "--json"],
    "memory llama-3.1-405b": ["-m", "archcli", "memory", "llama-3.1-405b", "--phase", "train", "--json"],
    "predict llama-3.1-405b": [
        "-m",
        "archcli",
        "predict",
        "llama-3.1-405b",
        "--device",
        "h100-sxm",
        "--json",
    ],
    "witness llama-3.1-405b": ["-c", WITNESS, "LlamaConfig", json.dumps(LLAMA_405B)],
    "witness deepseek-v3": ["-c", WITNESS, "DeepseekV3Config", "{}"],
}


class Check(NamedTuple):
    """A figure beside the most it may be."""

    what: str
    value: float
    most: float
    unit: str = ""

    @property
    def passed(self) -> bool:
        """Whether the target is met."""
        return self.value <= self.most


def seconds(task: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def run(name: str) -> str:
    """The output of one of COMMANDS.

    Bytecode is kept from run to run, as it is from an install on, whatever the environment says.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, *COMMANDS[name]], capture_output=True, text=True, check=True, env=kept
    ).stdout


def agree(model: str) -> None:
    """Two that are raced must have done the same work: refuse to time them where their totals differ."""
    ours = json.loads(run(f"params {model}"))["totals"]["params"]
    theirs = json.loads(run(f"witness {model}"))["params"]
    if ours != theirs:
        sys.exit(
            f"{model}: archcli counts {ours:,} parameters, torch {theirs:,}; there is nothing to compare"
        )


def start_checks(rounds: int) -> Iterator[Check]:
    """Ratios of whole commands, and the medians behind them."""
    for model in ("llama-3.1-405b", "deepseek-v3"):
        agree(model)  # warms the disk cache too
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name in COMMANDS:
            times[name].append(seconds(lambda name=name: run(name)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name:28} {median:8.3f} s   ({min(times[name]):.3f} to {max(times[name]):.3f})")
    for model in ("llama-3.1-405b", "deepseek-v3"):
        ours = medians[f"params {model}"]
        yield Check(f"params {model} / import torch", ours / medians["import torch"], 0.16)
        yield Check(f"params {model} / FlopCounterMode on meta", ours / medians[f"witness {model}"], 0.06)

    ours = medians["memory llama-3.1-405b"] / medians["params llama-3.1-405b"]
    yield Check("memory llama-3.1-405b / params llama-3.1-405b", ours, 1.3)
    ours = medians["predict llama-3.1-405b"] / medians["params llama-3.1-405b"]
    yield Check("predict llama-3.1-405b / params llama-3.1-405b", ours, 1.3)


def memory_check(rounds: int) -> Check:
    """Storages and what is kept: the rules alone, from modules in memory."""
    model = archcli.load("llama-3.1-405b")
    times = [
        seconds(lambda: trace_memory(model, Request("train", 1, 2048), Execution())) for _ in range(rounds)
    ]
    return Check("kept bytes of llama-3.1-405b", 1e3 * statistics.median(times), 20.0, "ms")


def trace_checks(rounds: int) -> Iterator[Check]:
    """Tracing each preset, from modules in memory to rows, over tracing one whose layers are all alike."""
    base = trace_seconds(ONE_LAYER, 10 * rounds)
    for name in PRESETS:
        yield Check(f"trace of {name} / {ONE_LAYER}", trace_seconds(name, rounds) / base, 13.0)


def trace_seconds(name: str, rounds: int) -> float:
    """The shortest of several traces of a preset."""
    model = archcli.load(name)
    forward_pass(model)  # imports its modules
    return min(seconds(lambda: forward_pass(model)) for _ in range(rounds))


def predict_checks(rounds: int) -> Iterator[Check]:
    """CPU time of predictions over that of `params`, each the shortest of several in turns."""
    for name, most in AT_MOST.items():
        commands = {"params": [name], "predict": [name, "--device", "h100-sxm"]}
        times: dict[str, list[float]] = {command: [] for command in commands}
        for _ in range(2 * rounds):
            for command, args in commands.items():
                times[command].append(cpu_seconds([command, *args, "--json"]))
        yield Check(f"predict {name} / params {name}", min(times["predict"]) / min(times["params"]), most)


def list_checks(rounds: int) -> Iterator[Check]:
    """CPU time of long lists over that of `params`, each the shortest of several in turns."""
    base, times = [], {line: [] for line in LISTS}
    for _ in range(rounds):
        base.append(cpu_seconds(["params", ONE_LAYER]))
        for line, taken in times.items():
            taken.append(cpu_seconds(line.split()))
    for line, most in LISTS.items():
        yield Check(f"{line} / params", min(times[line]) / min(base), most)


def page_checks(rounds: int) -> Iterator[Check]:
    """CPU time of what needs no model, over that of `params gpt2`, each the shortest of several in turns."""
    pages = {"--version": 0, "-h": 0, "help": 0, "parms gpt2": 2, "params -h": 0}
    times: dict[str, list[float]] = {line: [] for line in ("params gpt2", *pages)}
    for _ in range(2 * rounds):
        for line, taken in times.items():
            taken.append(cpu_seconds(line.split(), pages.get(line, 0)))
    for line in pages:
        yield Check(f"{line} / params gpt2", min(times[line]) / min(times["params gpt2"]), 1.0)


def layer_checks() -> Iterator[Check]:
    """CPU time of commands on hundreds of different layers, over that of `params` on the same file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layers.yaml"
        path.write_text(different_layers(DIFFERENT))
        base = cpu_seconds(["params", str(path), "--json"])
        for command, *options in OF_LAYERS:
            name = f"{' '.join((command, *options))} / params, {DIFFERENT} layers"
            yield Check(name, cpu_seconds([command, str(path), *options, "--json"]) / base, 5.0)


def cpu_seconds(args: list[str], code: int = 0) -> float:
    """CPU time of a command that exits with `code`, whose bytecode is kept as from an install on."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "archcli", *args]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(command, capture_output=True, check=False, env=kept)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode != code:
        sys.exit(f"archcli {' '.join(args)} exits with {ran.returncode}:\n{ran.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def plan_checks(rounds: int) -> Iterator[Check]:
    """The fastest plan of 1,024 devices that fits: of a dense model and of mixtures of experts."""
    for name in ("llama-3.1-405b", "mixtral-8x7b", "deepseek-v3"):
        model = archcli.load(name)
        times = [
            seconds(lambda model=model: archcli.predict(model, PLANNED_FOR, "train", fit="time"))
            for _ in range(rounds)
        ]
        yield Check(f"plan of {name} for {PLANNED_FOR}", statistics.median(times), 2.0, "s")


def sweep_checks(rounds: int) -> Iterator[Check]:
    """A million llama-shaped candidates, with head_dim 128 and up to 128 layers.

    Parameters and FLOPs, and then the bytes that each keeps for the backward.
    """
    draw = np.random.default_rng(0)
    heads = 8 * draw.integers(1, 17, CANDIDATES)
    shapes = {
        "d_model": 128 * heads,
        "n_heads": heads,
        "n_kv_heads": heads // 8,
        "d_ff": 256 * draw.integers(4, 257, CANDIDATES),
        "n_layers": draw.integers(1, 129, CANDIDATES),
    }
    model = archcli.load("llama-3.1-8b")
    counted = [seconds(lambda: sweep(model, shapes)) for _ in range(rounds)]
    yield Check("sweep of a million candidates", statistics.median(counted), 1.0, "s")
    swept = [sweep(model, shapes) for _ in range(rounds)]
    kept = [seconds(lambda figures=figures: figures.kept_bytes) for figures in swept]
    yield Check("kept bytes of a million candidates", statistics.median(kept), 2.0, "s")
    print(f"kept bytes of a million candidates over their parameters and FLOPs: {kept[0] / counted[0]:.2f}")


def main() -> int:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each command (5)")
    parser.add_argument("--strict", action="store_true", help="exit 1 where a target is missed")
    options = parser.parse_args()
    n = options.rounds
    checks = [
        *start_checks(n),
        *page_checks(n),
        *predict_checks(n),
        *list_checks(n),
        *trace_checks(n),
        *layer_checks(),
        memory_check(n),
        *plan_checks(n),
        *sweep_checks(n),
    ]
    print(f"\n{'':50} {'measured':>12} {'at most':>12}")
    for check in checks:
        print(
            f"{check.what:50} {check.value:9.3f} {check.unit:2} {check.most:9.2f} {check.unit:2} "
            f"{'pass' if check.passed else 'FAIL'}"
        )
    return int(options.strict and not all(check.passed for check in checks))


if __name__ == "__main__":
    sys.exit(main())
