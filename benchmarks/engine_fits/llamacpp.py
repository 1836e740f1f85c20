"""llama.cpp's constants: fitted on published runs, each device held out once, written into its YAML."""

import csv
import datetime as dt
from functools import cache
from pathlib import Path

import numpy as np
from efficiency.held_out import OUTER, fit, mean_error, rounded, share

from archcli.load import load
from archcli.wings.serving.api.known_device.known import device_memory
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.devices.engines import speeds_file
from archcli.wings.serving.predict.engine_kernels.llamacpp import EXPONENT, FP32
from archcli.wings.serving.predict.rank.kernels import rank_kernels
from archcli.wings.serving.predict.rank.planned import planned_pass
from archcli.wings.serving.predict.times import ATTENTION, PRODUCTS, kind_of

TABLE = Path(__file__).parents[1] / "measured" / "llamacpp_speed.csv"
BEGIN = "speeds: # made by benchmarks/fit_engines.py --llamacpp --write\n"
PHASES = {"generate": "generation", "prompt": "prompt"}
START = (1.3, 2.0, -1.0, -2.0, 0.0, 0.0)
"""The logarithm of a kernel's microseconds, then fractions as `share` takes them."""
NAMES = ("launch_us", "memory")


@cache
def runs(name):
    """The rows of a family that one device ran."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["n_devices"] == "1"]
    return [row for row in rows if device_memory(row["device"], None).family == name]


def options(row):
    """The question that a row answers: generated tokens have half of them in the cache, on average."""
    tokens = int(row["tokens"])
    of_phase = ("decode", tokens // 2) if row["phase"] == "generate" else ("prefill", tokens)
    phase, seq_len = of_phase
    asked = {"phase": phase, "seq_len": seq_len, "dtype": row["format"], "engine": "llamacpp"}
    return PredictOptions(row["model"], row["device"], **asked)


def question(row):
    """The question that a row answers."""
    return predict_question(load(row["model"]), options(row))


def measured(row):
    """Seconds of a row's token, or of its prompt."""
    return (1 if row["phase"] == "generate" else int(row["tokens"])) / float(row["tokens_per_s"])


@cache
def _kernels(model, form, phase, tokens, device):
    """Kernels by kind with FLOPs, bytes and how often each runs; formats name the weights."""
    row = {"model": model, "format": form, "phase": phase, "tokens": tokens, "device": device}
    asked = question(row)
    planned = planned_pass(asked.model, asked.settings, asked.plan)
    found = rank_kernels(planned, asked.settings, asked.plan, asked.cache).kernels
    return [(kind_of(run.op_class, run.kernel.name), run.kernel, run.times) for run in found], asked


class Runs:
    """The kernels of all rows of a family, flat, and how to time them by a set of numbers."""

    def __init__(self, rows):
        """Read the kernels and the device's rates of each row."""
        parts = []
        for at, row in enumerate(rows):
            kernels, asked = _kernels(*(row[key] for key in ("model", "format", "phase", "tokens", "device")))
            rates = asked.timing.clock.rates
            packed, prompt = asked.model.quantization is not None, row["phase"] == "prompt"
            for kind, kernel, times in kernels:
                # the place of its fraction of the peak among the numbers
                place = 5 if kind == ATTENTION else 2 + 2 * prompt + (not packed)
                dtype = FP32 if kind == PRODUCTS and not prompt else kernel.dtype
                flops = kernel.flops / rates.peak(dtype) if kind in (PRODUCTS, ATTENTION) else 0.0
                parts.append((at, place, times, flops, kernel.bytes / rates.bandwidth))
        self.at, self.place, self.times, self.compute, self.memory = map(np.array, zip(*parts, strict=True))
        self.number = len(rows)

    def seconds(self, numbers, rows):
        """Seconds of some rows by the logarithms and fractions of a fit."""
        launch, fractions = np.exp(numbers[0]) * 1e-6, share(np.asarray(numbers))
        both = (self.compute / fractions[self.place]) ** EXPONENT + (self.memory / fractions[1]) ** EXPONENT
        each = self.times * (launch + both ** (1 / EXPONENT))
        return np.bincount(self.at, each, self.number)[rows]


def fitted(name):
    """The rows of a family, the numbers fitted on them, and measured over expected of each, held out."""
    rows = runs(name)
    devices = np.array([row["device"] for row in rows])
    found = fit(Runs(rows).seconds, [measured(row) for row in rows], devices, START)
    return rows, found


def entry(rows, found):
    """What the YAML states of a family."""
    numbers = found.numbers
    fractions = [rounded(one) for one in share(numbers)]
    stated = {"launch_us": rounded(np.exp(numbers[0])), "memory": fractions[1]}
    for at, (phase, name) in enumerate(PHASES.items()):
        ratios = found.ratios[[row["phase"] == phase for row in rows]]
        low, high = np.quantile(ratios, OUTER)
        errors = {"rows": len(ratios), "error": rounded(mean_error(ratios), 3)}
        compute = dict(zip(("quantized", "plain"), fractions[2 + 2 * at :], strict=False))
        stated[name] = {**compute, **errors, "low": rounded(low, 3), "high": rounded(high, 3)}
    return {**stated, "table": TABLE.name, "fitted": dt.datetime.now(tz=dt.UTC).date().isoformat()}


def written(entries):
    """The text of the constants of all families."""
    lines = [BEGIN]
    for name, stated in entries.items():
        lines.append(f"  {name}:\n")
        for key, value in stated.items():
            shown = (
                f"{{{', '.join(f'{k}: {v}' for k, v in value.items())}}}"
                if isinstance(value, dict)
                else value
            )
            lines.append(f"    {key}: {shown}\n")
    return "".join(lines)


def show(rows, found):
    """Print how far each row was from what was expected while its device was held out."""
    for row, ratio in zip(rows, found.ratios, strict=True):
        what = f"{row['device']:18s}{row['model']:14s}{row['format']:8s}{row['phase']:9s}"
        print(f"  {what}{float(row['tokens_per_s']):9.1f} tokens/s  {ratio - 1:+.0%}")
    for phase in PHASES:
        ratios = found.ratios[[row["phase"] == phase for row in rows]]
        low, high = np.quantile(ratios, OUTER)
        print(
            f"  {phase}: {len(ratios)} rows, error {mean_error(ratios):.1%}, 80% in {low:.2f} to {high:.2f}"
        )


def renew(*, write):
    """Fit the families of GPUs, print the errors, and write the constants if asked to."""
    path = speeds_file("llamacpp")
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    entries = {}
    for name in ("gpu", "metal"):
        rows, found = fitted(name)
        print(name)
        show(rows, found)
        entries[name] = entry(rows, found)
    if write:
        # processors are stated by hand
        path.write_text(before + written(entries) + rest[rest.index("  cpu:\n") :], encoding="utf-8")
