"""Compare simulated loads with measured ones: first tokens, tokens after them, and tokens a second.

    python benchmarks/load_rows.py --out rows.csv     # ratios of rows that may be looked at; 20 minutes
    python benchmarks/load_rows.py --held-out --out held.csv
    python benchmarks/load_rows.py --of rows.csv      # errors by engine
    python benchmarks/load_rows.py --of rows.csv --write    # and ranges, as `loads` of engines/*.yaml

measured/load.csv: live servers whose requests, concurrency or rate are known. Left out are servers of vLLM
before its scheduler of 2025 (V0), those that say no plan, and those that guess tokens. A range holds 80% of
an engine's rows: the tenth and the ninetieth percentile of measured over expected.
"""

import argparse
import csv
import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import mean, median

from archcli.errors import ArchError
from archcli.load import load
from archcli.wings.serving.api.loaded.answer import loaded_server
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.devices.engines import engine_file, load_engine
from archcli.wings.serving.queueing.outcome import percentile

TABLE = Path(__file__).parent / "measured" / "load.csv"
SPREADS = {"0": "fixed", "": "fixed", "sharegpt": "lognormal"}
FIGURES = {
    "first": ("ttft_mean_s", lambda outcome: outcome.first.mean),
    "p90": ("ttft_p90_s", lambda outcome: outcome.first.p90),
    "token": ("tpot_mean_s", lambda outcome: outcome.per_token.mean),
    "rate": ("tokens_per_s", lambda outcome: outcome.tokens_per_s),
}
OLD = re.compile(r"V0 engine|no size given|speculat|draft")
SEQUENCES = re.compile(r"max_num_seqs (\d+)|max_running_requests (\d+)")
CHUNK = re.compile(r"max_num_batched_tokens (\d+)")
SHARE = re.compile(r"(?:mem_fraction_static|gpu_memory_utilization) (\d*\.\d+)")
BEGIN = "# made by benchmarks/load_rows.py --write\n"
LEAST, SEED = 20, 7
"""Rows of an engine by which a range is known."""


def is_asked(row):
    """Whether a row is of a server as it is today, with lengths."""
    return row["prompt"] and row["new"] and not OLD.search(row["note"])


def shares_devices(row):
    """Whether groups of attention (dp) are of the devices that share each matrix."""
    number = re.match(r"(\d+)x", row["device"])
    return int(row["dp"] or 1) * int(row["tp"] or 1) > (int(number[1]) if number else 1)


def options_of(row):
    """The question of a row, as options of predict."""
    begin = row["prompt_spread"]
    spread = SPREADS.get(begin, "uniform" if begin.startswith("1-") else "fixed")
    sequences, chunk, taken = (it.search(row["note"]) for it in (SEQUENCES, CHUNK, SHARE))
    options = {
        **{name: row[name] or None for name in ("device", "engine", "dtype", "kv_dtype")},
        "seq_len": max(1, round(float(row["prompt"]))),
        "new": max(1, round(float(row["new"]))),
        **{name: row[name] and int(row[name]) for name in ("requests", "concurrency", "tp", "ep")},
        "dp_attention" if shares_devices(row) else "dp": row["dp"] and int(row["dp"]),
        "rate": row["rate"] and float(row["rate"]),
        "max_sequences": sequences and int(next(filter(None, sequences.groups()))),
        "chunk": chunk and int(chunk[1]),
        "utilization": taken and float(taken[1]),
        "lengths": spread,
    }
    model = load(row["model"])
    return model, PredictOptions(model, **{name: it for name, it in options.items() if it not in {None, ""}})


def ratio_records(rows):
    """Measured over expected of each figure of a row, or why it was refused."""
    for number, row in enumerate(rows):
        shown = {name: row[name] for name in ("source", "engine", "version", "model", "device", "note")}
        shown["load"] = (
            f"{row['prompt']}/{row['new']} N{row['requests']} C{row['concurrency']} R{row['rate']}"
        )
        try:
            model, options = options_of(row)
            server = loaded_server(predict_question(model, options), options)
            outcome = server.outcome("expected") if server.is_known else None
        except ArchError as error:
            yield {"row": number, **shown, "why": str(error).splitlines()[0]}
            continue
        figures = FIGURES.items() if outcome else ()
        ratios = {
            name: float(row[column]) / of(outcome)
            for name, (column, of) in figures
            if row[column] and of(outcome)
        }
        yield {"row": number, **shown, **ratios, "why": "" if outcome else "a limit alone"}


def ranges(records):
    """By engine and figure: ratios in their order."""
    groups = defaultdict(list)
    for record in records:
        for name in FIGURES:
            if record.get(name):
                groups[record["engine"], name].append(float(record[name]))
    return {key: sorted(values) for key, values in groups.items()}


def write(groups):
    """Write the ranges of engines as `loads` of their YAML."""
    for engine in sorted({engine for engine, _ in groups}):
        known = {
            name: values for (of, name), values in groups.items() if of == engine and len(values) >= LEAST
        }
        lines = [
            f"  {name}: {{low: {percentile(values, 10):.3g}, high: {percentile(values, 90):.3g}, "
            f"error: {median(abs(1 / ratio - 1) for ratio in values):.3g}, rows: {len(values)}}}\n"
            for name, values in known.items()
            if name != "p90"
        ]
        path = engine_file(engine)
        text = path.read_text().split(BEGIN)[0]
        fitted = datetime.now(UTC).date()
        head = f"{BEGIN}loads:\n  table: load.csv\n  fitted: {fitted}\n"
        path.write_text(text + head + "".join(lines))


def main():
    """Ask rows, or print errors by engine and figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--of", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.of:
        with options.of.open() as file:
            groups = ranges(csv.DictReader(file))
        for (engine, name), values in sorted(groups.items()):
            errors = [abs(1 / ratio - 1) for ratio in values]
            span = load_engine(engine).get("loads", {}).get(name)
            inside = span and mean(span["low"] <= ratio <= span["high"] for ratio in values)
            print(
                f"{engine:8} {name:8} {len(values):4} rows: error {mean(errors):5.1%} mean, "
                f"{median(errors):5.1%} median; measured over expected {median(values):.2f}, "
                f"{percentile(values, 10):.2f} to {percentile(values, 90):.2f}; "
                f"in the range {'-' if inside is None else f'{inside:.0%}'}"
            )
        if options.write:
            write(groups)
        return
    with TABLE.open() as file:
        rows = [row for row in csv.DictReader(file) if (row["held_out"] == "yes") == options.held_out]
    rows = [row for row in rows if is_asked(row) and re.search(options.only, json.dumps(row))]
    names = ["row", "source", "engine", "version", "model", "device", "load", *FIGURES, "why", "note"]
    with options.out.open("w") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        Random(SEED).shuffle(rows)  # noqa: S311 - so that a part of them is a sample
        for record in ratio_records(rows[:: options.every]):
            writer.writerow(record)
            file.flush()


if __name__ == "__main__":
    main()
