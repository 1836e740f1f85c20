"""Compare simulated loads with measured ones: first tokens, tokens after them, and tokens a second.

    python benchmarks/load_rows.py                    # rows that may be looked at
    python benchmarks/load_rows.py --held-out         # the others
    python benchmarks/load_rows.py --every 5 --rows   # each fifth, row by row

measured/load.csv: live servers whose requests, concurrency or rate are known. Servers of vLLM before its
scheduler of 2025 (V0), those that say no plan and those that guess tokens are left out. Half an hour.
"""

import argparse
import csv
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

import archcli
from archcli.errors import ArchError

TABLE = Path(__file__).parent / "measured" / "load.csv"
SPREADS = {"0": "fixed", "": "fixed", "sharegpt": "lognormal"}
FIGURES = {
    "first": ("ttft_mean_s", "first_token_s"),
    "token": ("tpot_mean_s", "per_token_s"),
    "rate": ("tokens_per_s", "tokens_per_s"),
    "in": ("tokens_in_per_s", "prompt_tokens_per_s"),
}
OLD = re.compile(r"V0 engine|no size given|speculat|draft")
SEQUENCES = re.compile(r"max_num_seqs (\d+)|max_running_requests (\d+)")
CHUNK = re.compile(r"max_num_batched_tokens (\d+)")


def asked(row):
    """The question of a row, as keyword arguments of archcli.predict."""
    spread = SPREADS.get(row["prompt_spread"], "uniform" if row["prompt_spread"].startswith("1-") else "fixed")
    sequences, chunk = SEQUENCES.search(row["note"]), CHUNK.search(row["note"])
    options = {
        "device": row["device"],
        "engine": row["engine"],
        "dtype": row["dtype"],
        "kv_dtype": row["kv_dtype"] or None,
        "seq_len": max(1, round(float(row["prompt"]))),
        "new": max(1, round(float(row["new"]))),
        "requests": row["requests"] and int(row["requests"]),
        "concurrency": row["concurrency"] and int(row["concurrency"]),
        "rate": row["rate"] and f"{row['rate']}/s",
        "max_sequences": sequences and int(next(filter(None, sequences.groups()))),
        "chunk": chunk and int(chunk[1]),
        "lengths": spread,
        **{name: row[name] and int(row[name]) for name in ("tp", "dp", "ep")},
    }
    return {name: value for name, value in options.items() if value not in {None, ""}}


def compared(rows, out):
    """Each row's ratios of expected to measured, and whether the range holds it."""
    for row in rows:
        try:
            totals = archcli.predict(row["model"], **asked(row)).totals
        except ArchError as error:
            yield {"row": row, "error": str(error).splitlines()[0]}
            continue
        found = {"row": row, "ratios": {}, "inside": {}, "totals": {k: totals[k] for k in ("running", "waiting", "preemptions")}}
        for name, (column, key) in FIGURES.items():
            record = totals[key]
            if row[column] and record["expected"]:
                measured = float(row[column])
                found["ratios"][name] = record["expected"] / measured
                found["inside"][name] = record["low"] <= measured <= record["high"]
        yield found


def main():
    """Print errors by engine and figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    with TABLE.open() as file:
        rows = [row for row in csv.DictReader(file) if (row["held_out"] == "yes") == options.held_out]
    rows = [row for row in rows if not OLD.search(row["note"]) and re.search(options.only, json.dumps(row))]
    groups = defaultdict(list)
    for found in compared(rows[:: options.every], sys.stdout):
        row = found["row"]
        if options.rows:
            what = found.get("error") or " ".join(
                f"{name} {ratio:.2f}{'' if found['inside'][name] else '!'}" for name, ratio in found["ratios"].items()
            )
            print(row["source"][:44], row["date"], row["engine"], row["version"], row["model"], row["dtype"], row["device"],
                  f"{row['prompt']}/{row['new']} N{row['requests']} C{row['concurrency']} R{row['rate']}", what, found.get("totals", ""), row["note"][:60], sep=" | ", flush=True)  # fmt: skip
        for name, ratio in found.get("ratios", {}).items():
            for key in ((row["engine"], name), ("all", name)):
                groups[key].append((ratio, found["inside"][name]))
        if "error" in found:
            groups[row["engine"], "refused"].append((1.0, True))
    for (engine, name), values in sorted(groups.items()):
        errors = [abs(ratio - 1) for ratio, _ in values]
        ratio, inside = median(ratio for ratio, _ in values), mean(inside for _, inside in values)
        print(f"{engine:8} {name:8} {len(values):4} rows: error {mean(errors):5.1%} mean, {median(errors):5.1%} median; "
              f"ratio {ratio:.2f}; inside {inside:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
