"""How far `archcli predict --device local` is from what this machine measures, end to end.

    python benchmarks/predict_cpu.py FOLDER

Three models calibrate; five others are profiled and predicted, in four passes each. Profiles that are in
FOLDER already are not measured again, but predicted anew. For each pass: measured, expected, their ratio, and
the share of the class that is furthest off.
"""

import argparse
import subprocess
import sys
from itertools import product
from pathlib import Path

from archcli.wings.serving.api.known_device.profiles import calibrated, kernels_of, model_of, request_of
from archcli.wings.serving.api.known_device.saved_profile import read_profile
from archcli.wings.serving.predict.calibrate.against import compared, seconds_by_class
from archcli.wings.serving.recorded.machine import processor

CALIBRATE = ("gpt2", "qwen3-0.6b", "opt-125m")
PREDICTED = ("gpt2-medium", "qwen2.5-0.5b", "smollm2-135m", "smollm2-360m", "gemma-3-270m")
PASSES = {
    "forward-128": ("--phase", "forward", "-s", "128"),
    "forward-1024": ("--phase", "forward", "-s", "1024"),
    "decode": ("--phase", "decode", "--past", "512"),
    "train": ("--phase", "train", "-s", "128"),
}


def profiled(folder, model, name):
    """The profile of a pass, measured unless its file is there."""
    file = folder / f"{model}-{name}.json"
    if not file.exists():
        command = [sys.executable, "-m", "archcli", "profile", model, *PASSES[name]]
        subprocess.run([*command, "--json", "-o", str(file)], check=True)
    return file


def against(file, clock):
    """Measured beside predicted, by class and as a whole: what `profile --against-prediction` prints."""
    profile = read_profile(file)
    request = request_of(profile["inputs"])
    kernels = kernels_of(model_of(profile), request, profile["inputs"])
    measured = {name: of_class["seconds"] for name, of_class in profile["totals"]["by_class"].items()}
    return compared(measured, seconds_by_class(kernels, clock, request.phase))


def main():
    """Profile, calibrate, predict, and print how far off it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--calibrate", nargs="+", default=CALIBRATE, metavar="MODEL")
    parser.add_argument("--predict", nargs="+", default=PREDICTED, metavar="MODEL")
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    known = [profiled(asked.folder, model, name) for model, name in product(asked.calibrate, PASSES)]
    clock = calibrated(known, processor(), "cpu").clock
    errors, inside, shares = [], 0, []
    for model, name in product(asked.predict, PASSES):
        *classes, whole = against(profiled(asked.folder, model, name), clock)
        measured, expected = whole["measured_s"], whole["expected_s"]
        errors.append(abs(expected / measured - 1))
        inside += whole["low_s"] <= measured <= whole["high_s"]
        off = [abs(one["measured_s"] / measured - one["expected_s"] / expected) for one in classes]
        shares.append(100 * max(off))
        row = f"{measured:9.4f} s  {expected:9.4f} s  {expected / measured:5.2f}"
        print(f"{model:16} {name:13} {row}  share at most {shares[-1]:4.1f} points off")
    print(f"mean error {100 * sum(errors) / len(errors):.1f}%, {inside} of {len(errors)} in the range")
    within = sum(points <= 5 for points in shares)
    print(f"every class within 5 points in {within} of {len(shares)}, at most {max(shares):.1f} points off")


if __name__ == "__main__":
    main()
