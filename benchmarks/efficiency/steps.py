"""Training steps of llm-foundry's table: what archcli counts of each, and the constants of a step."""

from functools import cache

import numpy as np

from archcli.load import load
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.communication.collective import Fabric
from archcli.wings.serving.predict.constants import Efficiency, StepConstants
from archcli.wings.serving.predict.rank.training import training_work
from archcli.wings.serving.predict.times import KernelClock
from efficiency import products
from efficiency.held_out import fit, rounded, spread
from efficiency.tables import DEVICES, STEPS, column, rates, table

ZERO = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}
"""Stages of ZeRO by the names of torch's ShardingStrategy."""
BF16 = ("bf16", "amp_bf16")
SHAPE = ("d_model", "n_heads", "n_layers", "d_ff", "vocab_size")
SHAPES = "mpt_shapes.csv"
PARTS = ("products", "memory_bound", "attention", "communication")
START = (0.0, -1.0, -1.2, 0.0)
LONG = 16384
MEASURED = ("a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm")
CHIP_OF = {"a100-sxm-40gb": "a100-sxm-80gb"}
"""The device whose matrix products were measured, of one that has the same chip."""


def mapping(name, seq_len):
    """The architecture of an MPT as a YAML would hold it, with learned positions of this length."""
    shape = next(row for row in table(SHAPES) if row["model"] == name)
    size = {key: int(shape[key]) for key in SHAPE}
    attention = {"kind": "mha", "n_heads": size["n_heads"], "bias": True}
    ffn = {"kind": "mlp", "activation": "gelu", "d_ff": size["d_ff"], "bias": True}
    return {
        "name": name,
        "vocab_size": size["vocab_size"],
        "d_model": size["d_model"],
        "max_seq_len": seq_len,
        "norm": {"kind": "layernorm", "eps": 1e-5},
        "embedding": {"tied": shape["tied"] == "true", "position": {"kind": shape["positions"]}},
        "groups": [
            {"n_layers": size["n_layers"], "layer": {"kind": "pre_norm", "attention": attention, "ffn": ffn}}
        ],
    }


@cache
def _loaded(name, seq_len):
    return load(mapping(name, seq_len))


@cache
def products_of(device):
    """The constants of matrix products of a device, or of the one whose chip it has, as its YAML has them."""
    lender = CHIP_OF.get(device, device)
    of_lender = products.entries("", {lender}.__contains__)
    return {"matrix_products": {dtype: entry for _, dtype, entry, _ in of_lender}}


def fabric(device):
    """The links of a device."""
    figures = load_datasheet(device).figures
    return Fabric(device, figures["link_gb_s"].value, figures["network_gb_s"].value)


def work(row):
    """The work of the step that a row of the table states."""
    device, seq_len = DEVICES[row["device"]], int(row["seq_len"])
    settings = MemorySettings(
        batch_size=int(row["micro_batch"]),
        seq_len=seq_len,
        recompute="layer" if row["activation_checkpointing"] == "True" else "none",
        grad_accum=int(row["grad_accum"]),
    )
    plan = Plan(dp=int(row["n_devices"]), zero=ZERO[row["sharding"]])
    clock = KernelClock(rates(device), Efficiency(products_of(device)))
    return training_work(_loaded(row["model"], seq_len), settings, plan, clock, fabric(device))


class Steps:
    """Measured steps of a device in bf16: rows, work, seconds, and the model as a fold."""

    def __init__(self, device):
        self.rows = [
            row for row in table(STEPS) if DEVICES[row["device"]] == device and row["precision"] in BF16
        ]
        works = [work(row) for row in self.rows]
        self.floor = np.array([of.seconds(None).floor for of in works])
        self.parts = np.array([[getattr(of, part) for part in PARTS] for of in works])
        tokens = column(self.rows, "global_batch") * column(self.rows, "seq_len")
        self.measured = tokens / column(self.rows, "tokens_per_s")
        self.fold = np.array([row["model"] for row in self.rows])

    def expected(self, numbers, rows=slice(None)):
        """Expected seconds of some rows, by the logarithms of the four constants."""
        return self.parts[rows] @ np.exp(-np.asarray(numbers))


steps_of = cache(Steps)


@cache
def fitted(device):
    """The fit of a device's steps."""
    steps = steps_of(device)
    return fit(steps.expected, steps.measured, steps.fold, START)


def entries(date, wanted):
    """(device, dtype, entry of the YAML, fit) of each device."""
    for device in MEASURED:
        if wanted(device):
            of = fitted(device)
            shares = [rounded(share) for share in np.exp(of.numbers)]
            entry = dict(zip(StepConstants._fields, shares, strict=False))
            yield device, "bf16", {**entry, **of.origin(STEPS, date)}, of


def attention_entries(date, wanted):
    """(device, dtype, entry of the YAML, fit) of attention, with the errors of steps of long sequences.

    Those are errors within a training step; see `borrowed.attention_alone`.
    """
    for device, dtype, entry, of in entries(date, wanted):
        ratios = of.ratios[is_long(steps_of(device))]
        origin = {**spread(ratios), "rows": len(ratios), "table": STEPS, "fitted": date}
        yield device, dtype, {"compute": entry["attention"], **origin}, of


def is_long(steps):
    """Which steps have sequences so long that much of their time is attention."""
    return column(steps.rows, "seq_len") >= LONG
