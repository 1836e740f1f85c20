"""What engines and trainers were seen to take beyond the count: the margins of the verdict "tight".

    python benchmarks/fit_margins.py            # a line for each measured run, and the margins
    python benchmarks/fit_margins.py --write    # and writes them into engines/*.yaml

measured/serving_memory.csv: bytes that engines logged; the margin of an engine is the most that one run took
beyond `archcli memory --phase serve`. measured/training_memory.csv and torchtitan_train.csv: peaks of
trainers. The margin of training is a share: of the whole count where all weights train, of activations and
temporaries where adapters do. A run that ran out of memory took at least what was left. Some seconds.
"""

import argparse
import csv
import math
import re
from pathlib import Path

from efficiency import frameworks

from archcli import count_memory, load
from archcli.wings.serving.devices.engines import engine_file
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.verdict import held_bytes

MEASURED = Path(__file__).parent / "measured"
SERVING, TRAINING = "serving_memory.csv", "training_memory.csv"
GIB = 2**30
STEP = 0.05
"""Margins are rounded up to multiples of so many GiB, or of a hundredth of the count."""


def table(name):
    """The rows of a table."""
    with (MEASURED / name).open() as file:
        return list(csv.DictReader(file))


def number(row, key):
    """A whole number of a row; None where the cell is empty."""
    return int(row[key]) if row[key] else None


def served(row):
    """The totals and inputs of `archcli memory` on a row of an engine."""
    report = count_memory(
        row["model"],
        "serve",
        seq_len=int(row["seq_len"]),
        **{name: row[name] or None for name in ("engine", "dtype", "kv_dtype", "device")},
        **{name: int(row[name]) for name in ("tp", "pp")},
        chunk=number(row, "chunk"),
        utilization=float(row["utilization"]) if row["utilization"] else None,
    )
    return report.totals, report.inputs


def of_engine(row):
    """GiB that an engine took beyond the count; of one that ran out of memory at least what was left."""
    totals, inputs = served(row)
    temporaries, beyond, cache = (
        totals["parts"]["temporaries"],
        totals["beyond_bytes"],
        totals["parts"]["cache"],
    )
    left = inputs["memory_bytes"] - totals["peak_bytes"] - beyond
    counted = {"beyond": temporaries + beyond, "temporaries": temporaries, "peak": totals["peak_bytes"]}
    counted |= {"pool": left + cache}
    if row["figure"] == "no block":  # of the cache, however small
        return (left + cache) / GIB
    more = float(row["gib"]) - counted[row["figure"]] / GIB
    return -more if row["figure"] == "pool" else more


def trained(row):
    """The totals and inputs of `archcli memory` on a row of a trainer."""
    rank, *targets = row["adapters"].split() or [""]
    names = ["all_linear"] if targets == ["all"] else targets
    sets = [f"lora.rank={rank}", f"lora.targets=[{','.join(names)}]"] if rank else []
    model = load(row["model"], overrides=sets)
    options = {name: int(row[name]) for name in ("batch_size", "seq_len", "dp", "zero", "tp")}
    options |= {name: row[name] for name in ("dtype", "recompute", "optimizer", "device")}
    report = count_memory(model, "train", sp=options["tp"] > 1, **options)
    return report.totals, report.inputs


def of_trainer(row):
    """The share of the count that a trainer took beyond it."""
    totals, inputs = trained(row)
    counted, held = totals["peak_bytes"], held_bytes(totals["parts"])
    if row["figure"] == "ran out":
        more = inputs["memory_bytes"] - counted - totals["beyond_bytes"]
    else:
        more = float(row["gib"]) * GIB - counted
    return more / (counted - held if row["adapters"] else counted)


def of_torchtitan():
    """(run, share) of torchtitan's table: reserved bytes beyond the count, float8 and compiled ones too."""
    for row in table(frameworks.TORCHTITAN):
        dp, tp, pp, cp = (frameworks.number(row["plan"], name) for name in ("fsdp", "tp", "pp", "cp"))
        if row["peak_memory_gib"] and pp == cp == 1:
            recompute = "layer" if row["activation_checkpointing"] == "full" else frameworks.SELECTIVE
            sizes = {"batch_size": int(row["local_batch"]), "seq_len": int(row["seq_len"])}
            plan = {"dp": dp, "zero": 3, "tp": tp, "sp": tp > 1}
            counted = count_memory(row["model"], "train", recompute=recompute, **sizes, **plan)
            share = float(row["peak_memory_gib"]) * GIB / counted.totals["peak_bytes"] - 1
            yield f"torchtitan {row['model']} {row['plan']} {row['extra']}", share


def of_megatron():
    """(run, share) of Megatron-LM's table: allocated bytes beyond the count."""
    seen = set()
    for row, step in zip(table(frameworks.MEGATRON_B200), frameworks.on_b200(), strict=True):
        case = re.sub(r"_mbc\d+|_cef", "", row["case"])
        if case not in seen:
            seen.add(case)
            counted = MemoryQuestion(load(step.model), step.settings, step.plan).answer().peak_bytes
            yield f"Megatron-LM {case}", float(row["measured_peak_alloc_gib"]) * GIB / counted - 1


def measured():
    """(engine, fact, run, what it took beyond the count) of all runs; `at least` of those out of memory."""
    for row in table(SERVING):
        run = f"{row['model']} {row['device']} {row['figure']}"
        yield row["engine"], "margin", run, of_engine(row)
    for row in table(TRAINING):
        if row["figure"] != "ran":
            fact = "adapters_margin" if row["adapters"] else "training_margin"
            what = f"{row['framework']} {row['model']} {row['dtype']} {row['seq_len']} {row['figure']}"
            yield "none", fact, what, of_trainer(row)
    for run, share in (*of_torchtitan(), *of_megatron()):
        yield "none", "training_margin", run, share


def margins(runs):
    """The most that a run took, rounded up, by engine and fact; none below 0."""
    most = {}
    for engine, fact, _, more in runs:
        most[engine, fact] = max(most.get((engine, fact), 0), more)
    return {key: rounded(*key, size) for key, size in most.items()}


def rounded(_, fact, size):
    """`1.65GiB`, or the share 0.45."""
    if fact == "margin":
        return f"{math.ceil(size / STEP) * STEP:.2f}GiB"
    return f"{math.ceil(size * 100) / 100:.2f}"


def write(engine, fact, value):
    """Write a margin into an engine's YAML, in place of the one that it has."""
    path = engine_file(engine)
    text = re.sub(rf"^{fact}: .*\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    path.write_text(text.replace("sources:\n", f"{fact}: {value}\nsources:\n", 1), encoding="utf-8")


def main():
    """Print each run and the margins; with --write also write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the margins into engines/*.yaml")
    asked = parser.parse_args()
    runs = []
    for run in measured():
        print(f"{run[0]:9} {run[1]:16} {run[3]:+7.2f}  {run[2]}")
        runs.append(run)
    for (engine, fact), value in margins(runs).items():
        print(f"{engine}: {fact} {value}")
        if asked.write:
            write(engine, fact, value)


if __name__ == "__main__":
    main()
