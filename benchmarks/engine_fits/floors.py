"""Measurements that are faster than a device allows: each byte read once, each product at the peak."""

import numpy as np

from engine_fits.kinds import KINDS, device_of
from engine_fits.loads import experts_and_rows
from engine_fits.tables import dropped, length, read, taken

CLOSE = 0.95
"""What a clock above the nominal one, or a rounded figure of a datasheet, may take off a floor."""
LATENT_KEY, LATENT_PAIR, HEAD_PAIR = 576, 2 * (576 + 512), 2 * (192 + 128)


def below_floors(folder):
    """Rows faster than their floor, by table: those that L2 cannot help so far, and those that it can."""
    for table in sorted({table for kind in KINDS for table in kind.tables}):
        if table == "allreduce_engine":
            continue
        rows = read(folder / f"{table}.csv")
        out, (all_read, beyond) = dropped(table, rows), _floors(table, rows)
        skewed = rows["routing"] != "balanced" if "routing" in rows else np.zeros(length(rows), dtype=bool)
        impossible = rows["time_us"] < CLOSE * beyond
        helped = (rows["time_us"] < CLOSE * all_read) & ~impossible
        yield {
            "table": table,
            "rows": length(rows),
            "dropped": int(out.sum()),
            "below": int((impossible & ~out & ~skewed).sum()),
            "below, read from L2": int((helped & ~out).sum()),
            "below, skewed experts": int((impossible & ~out & skewed).sum()),
            "below, dropped": int((impossible & out).sum()),
        }


def _floors(table, rows):
    """Floors of each row in microseconds: all bytes from memory, and those alone that L2 cannot hold."""
    all_read, beyond = (np.zeros(length(rows)) for _ in range(2))
    dtypes = _fastest(rows)
    for device in sorted(set(rows["device"])):
        for dtype in sorted(set(dtypes[rows["device"] == device])):
            where = (rows["device"] == device) & (dtypes == dtype)
            rates = device_of(device, dtype)
            flops, moved = _work(table, taken(rows, where))
            computed = flops / rates.peak
            all_read[where] = 1e6 * np.maximum(computed, moved / rates.bandwidth)
            spilled = np.maximum(moved - rates.cache, 0)
            beyond[where] = 1e6 * np.maximum(computed, spilled / rates.bandwidth)
    return all_read, beyond


def _fastest(rows):
    """The dtype whose peak nothing beats: fp8 where the cache is, as a path may compute in it."""
    if "cache_dtype" not in rows:
        return rows["dtype"] if "dtype" in rows else np.full(length(rows), "bf16")
    return np.where(rows["cache_dtype"] == "fp8", "fp8", rows["dtype"])


def _work(table, rows):
    """FLOPs and bytes of each row, each byte once: what no kernel does without."""
    if table.startswith("attention"):
        return _attention(table, rows)
    if table.startswith("mla_b"):
        weights = 128 * 512 * np.where(rows["dtype"] == "fp8", 1, 2)
        pairs = rows["heads"] * rows["tokens"]
        return 2 * pairs * 128 * 512, rows["heads"] * weights + 2 * pairs * (128 + 512)
    if table.startswith("mla"):
        return _latent(table, rows)
    if table.startswith("experts"):
        return _experts(rows)
    states = np.where(np.char.find(rows["kernel"], "conv") >= 0, 0, rows["v_heads"] * 128 * 128 * 4)
    # a state in bf16, of prompts written alone; queries and keys alone where the convolution is narrow
    return 0 * rows["batch"], rows["batch"] * (states / 2 + 4 * 128 * rows["k_heads"] * rows["length"])


def _attention(table, rows):
    width = np.where(rows["cache_dtype"] == "fp8", 1, 2)
    reach = np.where(rows["window"] > 0, np.minimum(rows["window"], rows["length"]), rows["length"])
    batch, heads = rows["batch"], rows["heads"]
    if "decode" in table:
        read_once = 2 * batch * rows["kv_heads"] * reach * rows["head_dim"] * width
        return 4 * batch * heads * reach * rows["head_dim"], read_once
    pairs = reach * (reach + 1) / 2 + (rows["length"] - reach) * reach
    read_once = batch * rows["length"] * rows["head_dim"] * 2 * (heads + rows["kv_heads"]) * width
    return 4 * batch * heads * pairs * rows["head_dim"], read_once


def _latent(table, rows):
    width = np.where(rows["cache_dtype"] == "fp8", 1, 2)
    if "decode" in table:
        read_once = rows["batch"] * rows["length"] * LATENT_KEY * width
        return rows["batch"] * rows["heads"] * rows["length"] * LATENT_PAIR, read_once
    pairs = rows["batch"] * rows["heads"] * rows["length"] * (rows["length"] + 1) / 2
    return HEAD_PAIR * pairs, 2 * rows["batch"] * rows["length"] * rows["heads"] * (192 + 128)


def _experts(rows):
    from engine_fits.kinds import WEIGHT_BYTES

    touched, pairs = experts_and_rows(rows)
    weight = np.array([WEIGHT_BYTES[dtype] for dtype in rows["dtype"]])
    elements = (2 + rows["gated"]) * rows["hidden"] * rows["inter"] / rows["tp"]
    return 2 * pairs * elements, touched * elements * weight
