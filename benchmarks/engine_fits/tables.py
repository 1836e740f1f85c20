"""Tables of measured kernels, as columns, and rows that are left out; see benchmarks/measured/README.md."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SAMPLE = Path(__file__).parents[1] / "measured" / "engines"
"""The rows that the project keeps; the full tables are elsewhere."""
TABLES = (
    "attention_context",
    "attention_context_fp8",
    "attention_decode",
    "attention_decode_fp8",
    "mla_context",
    "mla_decode",
    "mla_bmm",
    "experts",
    "experts_fp8",
    "experts_4bit",
    "allreduce_engine",
    "delta_net",
)
TEXTS = ("device", "engine", "kernel", "dtype", "cache_dtype", "routing", "op", "phase", "step")
MOST_PROMPTS = 256
"""The largest batch of prompts in the tables; decoding has larger ones."""


@dataclass(frozen=True)
class Dropped:
    """Rows that are left out: of tables whose name begins so, where a test of the columns holds, and why."""

    table: str
    test: object
    reason: str


DROPPED = (
    Dropped(
        "attention_decode",
        lambda rows: (rows["device"] == "a100-sxm-80gb") & (rows["engine"] == "trtllm"),
        "TensorRT-LLM 1.0.0 on A100 is up to 1.5 times as fast as the memory: wrong, by the look of it",
    ),
    Dropped(
        "attention_decode",
        lambda rows: (rows["engine"] == "trtllm") & (rows["heads"] >= 48 * rows["kv_heads"]),
        "TensorRT-LLM falls to a kernel 5 to 50 times as slow from 48 query heads a key head",
    ),
)
MOST_DROPPED = 0.08
"""The largest share of a table that may be left out."""


def read(path):
    """The rows of a table as columns: texts, and numbers as floats."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return columns(rows)


def columns(rows):
    """Rows as columns: texts, and numbers as floats."""
    names = rows[0].keys() if rows else ()
    return {
        name: np.array([row[name] for row in rows], dtype=str if name in TEXTS else float)
        for name in names
        if name != "table"
    }


def taken(rows, where):
    """Some rows of a table, by a mask or by their numbers."""
    return {name: column[where] for name, column in rows.items()}


def length(rows):
    """How many rows there are."""
    return len(next(iter(rows.values()))) if rows else 0


def table_of(path, rows):
    """The table that a file is of: by its name, else by its columns."""
    stem = Path(path).stem.lower()
    named = [table for table in TABLES if table in stem]
    if named:
        return max(named, key=len)
    if "gated" in rows:
        return "experts"
    if "graph" in rows:
        return "allreduce_engine"
    if "phase" in rows:
        return "delta_net"
    if "step" in rows:
        return "mla_bmm"
    kind = "attention" if "kv_heads" in rows else "mla"
    # prompts are 64 tokens and more, of at most 256 sequences; a cache may be shorter, or of more
    is_decode = rows["batch"].max() > MOST_PROMPTS or any("decode" in name for name in rows["kernel"])
    return f"{kind}_{'decode' if is_decode else 'context'}"


def dropped(table, rows):
    """Which rows are left out, as a mask."""
    out = np.zeros(length(rows), dtype=bool)
    for rule in DROPPED:
        if table.startswith(rule.table):
            out |= rule.test(rows)
    return out


def write_sample(folder, size, seed):
    """Keep `size` rows of each table, device and engine, drawn at random, as the project's own."""
    SAMPLE.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for table in TABLES:
        header, *lines = (folder / f"{table}.csv").read_text(encoding="utf-8").splitlines()
        groups = {}
        for line in lines:
            groups.setdefault(tuple(line.split(",")[:2]), []).append(line)
        drawn = [
            one[number]
            for one in groups.values()
            for number in sorted(random.choice(len(one), min(size, len(one)), replace=False))
        ]
        (SAMPLE / f"{table}.csv").write_text("\n".join([header, *drawn, ""]), encoding="utf-8")
