"""Constants of kernels that memory bounds, from vidur's medians; a model is held out at a time.

tokens n, width d, heads H and kv heads K of d / H, inner width f, in bf16; a device has 1 / tp of H, K and f.
"""

from functools import cache
from operator import itemgetter

import numpy as np

from archcli.wings.serving.predict.constants import KernelConstants, Terms
from efficiency.held_out import fit, mean_error, rounded, share
from efficiency.tables import DEVICES, OPERATIONS, rates, table

START = (np.log(3e-6), 0.0)
BF16 = 2


def _normalized(n, row):
    return 2 * n * row["d_model"]


def _rotated(n, row):
    heads = row["n_head"] + max(row["n_kv_head"], row["tp"])
    return 2 * n * heads / row["tp"] * row["d_model"] / row["n_head"]


def _activated(n, row):
    return (3 if row["gated"] else 2) * n * row["d_ff"] / row["tp"]


def _added(n, row):
    return 3 * n * row["d_model"]


KINDS = {
    "normalization": (("input_layernorm_ms", "post_attention_layernorm_ms"), _normalized),
    "gated_activation": (("mlp_act_ms",), _activated),
    "addition": (("add_ms",), _added),
    "elementwise": (("attn_rope_ms",), _rotated),
    "movement": (("add_ms",), _added),
    "gather": (("emb_ms",), _normalized),
}
"""Columns of the table, and the elements that a kernel reads and writes. Rotary embedding stands for other
element-wise kernels, an addition for copies; a gather is that of the token table where it is whole."""
WHOLE = {"gather"}
SIZES = ("tokens", "tp", "n_head", "n_kv_head", "d_model", "d_ff")


class Movements:
    """Measured kernels of a device and a kind: bytes, seconds, and the model as a fold."""

    def __init__(self, device, kind):
        columns, elements = KINDS[kind]
        rows = [row for row in table(OPERATIONS) if DEVICES.get(row["device"]) == device]
        measured = [
            (BF16 * elements(sizes["tokens"], sizes), float(row[key]) / 1e3, row["model"])
            for row in rows
            for sizes in [{**{key: int(row[key]) for key in SIZES}, "gated": row["gated"] == "True"}]
            for key in columns
            if row[key] not in ("", "0.0") and not (kind in WHOLE and sizes["tp"] > 1)
        ]
        self.bytes, self.measured = (np.array([m[i] for m in measured]) for i in (0, 1))
        self.fold = np.array(list(map(itemgetter(2), measured)))


def constants(numbers):
    """Constants of unbounded numbers: seconds above 0, a fraction below 1."""
    launch, memory = numbers
    return KernelConstants.of_memory(np.exp(launch), share(memory))


def seconds_of(movements, peaks, numbers, rows):
    """Expected seconds of some rows."""
    of = constants(numbers)
    floor = Terms(0.0, 0.0, movements.bytes[rows] / peaks.bandwidth)
    return of.terms(floor, 0.0).joined(of.exponent)


@cache
def fitted(device, kind):
    """The fit of one table."""
    movements = Movements(device, kind)

    def seconds(numbers, rows):
        return seconds_of(movements, rates(device), numbers, rows)

    return fit(seconds, movements.measured, movements.fold, START)


def error_by(lender, device, kind):
    """The mean error of a device's kernels of a kind by the constants of another device."""
    of, every = Movements(device, kind), slice(None)
    return mean_error(of.measured / seconds_of(of, rates(device), fitted(lender, kind).numbers, every))


def entries(date, wanted):
    """(device, kind, entry of the YAML, fit) of each table."""
    for device in sorted({DEVICES[row["device"]] for row in table(OPERATIONS) if row["device"] in DEVICES}):
        for kind in KINDS if wanted(device) else ():
            of = fitted(device, kind)
            stated = constants(of.numbers)
            entry = {"launch_us": rounded(stated.launch * 1e6), "memory": rounded(stated.memory)}
            yield device, kind, {**entry, **of.origin(OPERATIONS, date)}, of
