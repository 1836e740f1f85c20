"""The kept measurements, as columns of numbers by device; see benchmarks/measured/README.md."""

import csv
from functools import cache
from pathlib import Path

import numpy as np

from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.predict.constants import Rates

FOLDER = Path(__file__).parents[1] / "measured"
PRODUCTS, OPERATIONS = "aiconfigurator_gemm_sample.csv", "vidur_ops.csv"
ALL_REDUCES, STEPS = "vidur_allreduce.csv", "llmfoundry_train.csv"
DEVICES = {
    "a100_sxm": "a100-sxm-80gb",
    "a100": "a100-sxm-80gb",
    "a100_dgx": "a100-sxm-80gb",
    "a100_80gb": "a100-sxm-80gb",
    "a100_40gb": "a100-sxm-40gb",
    "h100_sxm": "h100-sxm",
    "h100": "h100-sxm",
    "h100_dgx": "h100-sxm",
    "h100_80gb": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "gb200": "gb200",
    "l40s": "l40s",
    "a40": "a40",
    "rtx_pro_6000_server": "rtx-pro-6000-server",
}
"""Our names of the devices that the tables name."""
DTYPES = {"bfloat16": "bf16", "fp8": "fp8"}


@cache
def table(name):
    """The rows of a table, as texts by column."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def rates(device):
    """The peaks of a device by its datasheet."""
    figures = load_datasheet(device).figures
    return Rates.of(device, {key: figure.value for key, figure in figures.items()})


def column(rows, key):
    """A column of numbers."""
    return np.array([float(row[key]) for row in rows])
