"""How far `archcli predict --phase serve` is from figures of TensorRT-LLM; nothing is fitted on them.

    python benchmarks/predict_serving.py [--rows]

measured/trtllm_fixed_batch.csv: batches of one size that begin and end together, output tokens a second of a
device, and the time to a first token of one sequence. That version read keys and values once for each query
head. A row in fp8 has products and cache in it, as `--enable_fp8 --fp8_kv_cache` say.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from archcli.load import load
from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.answers.question import PredictQuestion, PredictSettings

TABLE = Path(__file__).parent / "measured" / "trtllm_fixed_batch.csv"
DEVICES = {"h100_sxm": "h100-sxm", "l40s": "l40s", "a100_sxm_80gb": "a100-sxm-80gb"}
THROUGHPUT, FIRST_TOKEN = "output_tokens_per_s_per_gpu", "first_token_latency_ms"


def question(row):
    """The question that a row answers."""
    dtype = row["precision"]
    first = row["metric"] == FIRST_TOKEN
    settings = MemorySettings("serve", int(row["batch"]), int(row["input_len"]), dtype=dtype)
    model, settings = settings.stored(load(row["model"]))
    new = 1 if first else int(row["output_len"])
    asked = PredictSettings(new, engine="trtllm", kv_read="heads", kv_dtype="fp8" if dtype == "fp8" else None)
    device = known_device(DEVICES[row["device"]]).timed
    return PredictQuestion(model, settings, device, Plan(tp=int(row["tp"])), asked)


def predicted(row):
    """Floor, expected, low and high of a row's figure, in its unit."""
    answer = question(row).answer()
    if row["metric"] == FIRST_TOKEN:
        time = answer.served.first_token
        return [1e3 * seconds for seconds in (time.floor, time.expected, time.low, time.high)]
    rates = answer.prediction.tokens_per_s
    return [rates[name] / int(row["tp"]) for name in ("floor", "expected", "low", "high")]


def evaluated(show=None):
    """By metric and device, and of all devices, (figures predicted, figure measured) of each row."""
    with TABLE.open() as file:
        rows = list(csv.DictReader(file))
    found = defaultdict(list)
    for row in rows:
        figures = predicted(row)
        for device in ("all", DEVICES[row["device"]]):
            found[row["metric"], device].append((figures, float(row["value"])))
        if show is not None:
            show(row, *figures)
    return found


def main():
    """Print the error of each device and metric, and how many rows lie in the printed range."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", action="store_true", help="print each row")
    show = (lambda *of_row: print(line(*of_row))) if parser.parse_args().rows else None
    for (metric, device), pairs in sorted(evaluated(show).items()):
        figures = ", ".join(f"{what} {figure}" for what, figure in summary(pairs).items())
        print(f"{metric} {device}: {len(pairs)} rows, {figures}")


def line(row, floor, expected, low, high):
    """A row in words."""
    what = f"{row['device']:14} {row['precision']} {row['model']:12} b {row['batch']:>4} tp {row['tp']}"
    sizes = f"{row['input_len']:>5} + {row['output_len']:<5}"
    measured = f"measured {float(row['value']):8,.0f}  floor {floor:8,.0f}"
    return f"{what} {sizes} {measured}  expected {expected:8,.0f}  {low:8,.0f} to {high:8,.0f}"


def summary(pairs):
    """The errors of some rows, each as it is shown."""
    figures, measured = (np.array(side) for side in zip(*pairs, strict=True))
    floors, ratios = figures[:, 0] / measured, figures[:, 1] / measured
    inside = np.mean((figures[:, 2] <= measured) & (measured <= figures[:, 3]))
    return {
        "mean error": f"{np.mean(np.abs(ratios - 1)):.1%}",
        "expected / measured": f"{ratios.min():.2f} to {ratios.max():.2f}",
        "in the range": f"{inside:.0%}",
        "floor / measured": f"{floors.min():.2f} to {floors.max():.2f}",
    }


if __name__ == "__main__":
    main()
