"""Constants of matrix products, from measured ones; shapes of the same (n, k) are held out together.

The A40 is in vidur's table alone, with the projections of layers: tokens m, width d, heads H and kv heads K
of d / H, inner width f, in fp16; a device has 1 / tp of H, K and f. The others have a table of products.
"""

import numpy as np

from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.predict.constants import Efficiency, KernelConstants, Terms
from archcli.wings.serving.predict.times import PRODUCTS as KIND
from archcli.wings.serving.predict.times import depth_of
from efficiency.held_out import fit, folds, mean_error, rounded, share
from efficiency.tables import DEVICES, DTYPES, OPERATIONS, PRODUCTS, column, rates, table

START = (np.log(3e-6), np.log(0.2e-9), 1.4, 1.8, 0.3)
LARGEST_EXPONENT = 16
WIDTHS = {"bf16": 2, "fp8": 1}
"""Bytes of an element that a product reads; it writes bf16."""


PROJECTED = ("a40",)
"""Devices that only the table of projections has."""


def _shapes(row):
    """(n, k) of a layer's projections on one device, by the column that has their time."""
    heads, kv_heads, d, f, tp = (int(row[key]) for key in ("n_head", "n_kv_head", "d_model", "d_ff", "tp"))
    joined = 2 if row["gated"] == "True" else 1
    return {
        "attn_pre_proj_ms": ((heads + 2 * kv_heads) * d // heads // tp, d),
        "attn_post_proj_ms": (d, d // tp),
        "mlp_up_proj_ms": (joined * f // tp, d),
        "mlp_down_proj_ms": (d, f // tp),
    }


def _projections(rows):
    """Rows of the table of projections as those of products."""
    for row in rows:
        for key, (n, k) in _shapes(row).items():
            yield {"m": row["tokens"], "n": n, "k": k, "latency_ms": row[key]}


class Products:
    """Measured products of a device and a dtype, as arrays in place of a kernel's numbers."""

    name, op_class = "mm", KIND

    def __init__(self, rows, dtype, source=PRODUCTS):
        m, n, k = (column(rows, key) for key in "mnk")
        self.source = source
        self.dtype, self.measured = dtype, column(rows, "latency_ms") / 1e3
        self.flops, self.read, self.written = 2 * m * n * k, WIDTHS[dtype] * (m * k + k * n), 2 * m * n
        self.fold = folds(list(zip(n, k, strict=True)))
        self.m = m


def constants(numbers, *, with_depth=True):
    """Constants of unbounded numbers: seconds above 0, fractions below 1, an exponent from 1."""
    launch, depth, compute, memory, exponent = numbers
    exponent = min(1 + np.exp(min(exponent, 20)), LARGEST_EXPONENT)
    depth = np.exp(depth) if with_depth else 0.0
    return KernelConstants(np.exp(launch), depth, share(compute), share(memory), exponent)


def fitted(products, peaks, *, with_depth=True):
    """The fit of one table; without the depth, the plain four constants."""

    def seconds(numbers, rows):
        return seconds_of(products, peaks, constants(numbers, with_depth=with_depth), rows)

    return fit(seconds, products.measured, products.fold, START)


def seconds_of(products, peaks, of, rows=slice(None)):
    """Expected seconds of some rows by the constants of a device."""
    compute = products.flops[rows] / peaks.peak(products.dtype)
    memory = (products.read + products.written)[rows] / peaks.bandwidth
    return of.terms(Terms(0.0, compute, memory), depth_of(products)[rows]).joined(of.exponent)


def error_by(lender, device):
    """The mean error of a device's products in bf16 by the constants that another device states."""
    of = Efficiency(load_datasheet(lender).efficiency).products("bf16")
    products = next(known for name, dtype, known in measured_products() if (name, dtype) == (device, "bf16"))
    return mean_error(products.measured / seconds_of(products, rates(device), of))


def measured_products():
    """(device, dtype, products) of each device."""
    tables = {}
    for row in table(PRODUCTS):
        if row["dtype"] in DTYPES:
            tables.setdefault((DEVICES[row["device"]], DTYPES[row["dtype"]]), []).append(row)
    for (device, dtype), rows in sorted(tables.items()):
        yield device, dtype, Products(rows, dtype)
    for device in PROJECTED:
        rows = [row for row in table(OPERATIONS) if DEVICES[row["device"]] == device]
        yield device, "bf16", Products(list(_projections(rows)), "bf16", OPERATIONS)


def entries(date, wanted):
    """(device, dtype, entry of the YAML, fit) of each table."""
    for device, dtype, products in measured_products():
        if wanted(device):
            of = fitted(products, rates(device))
            stated = constants(of.numbers)
            entry = {
                "launch_us": rounded(stated.launch * 1e6),
                "depth_ns": rounded(stated.depth * 1e9),
                "compute": rounded(stated.compute),
                "memory": rounded(stated.memory),
                "exponent": rounded(stated.exponent),
            }
            yield device, dtype, {**entry, **of.origin(products.source, date)}, of
