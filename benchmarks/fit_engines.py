"""Fit the constants of engines' kernels on measured tables, and tell how well they predict held-out shapes.

    python benchmarks/fit_engines.py                    # the errors that engines/*.yaml state, by operation
    python benchmarks/fit_engines.py --fit FOLDER       # fits on the tables of a folder, prints errors
    python benchmarks/fit_engines.py --fit FOLDER --write   # and writes `kernels:` into engines/*.yaml
    python benchmarks/fit_engines.py --check FILE.csv   # errors of stated constants on other rows, as JSON
    python benchmarks/fit_engines.py --floors FOLDER    # measurements below what the device's peaks allow
    python benchmarks/fit_engines.py --lent FOLDER      # errors of a device with another's constants
    python benchmarks/fit_engines.py --sample FOLDER    # draws the rows that the project keeps

What is fitted is said in archcli/wings/serving/predict/engine_kernels/, where the tables are from in
benchmarks/measured/README.md. The project keeps a sample of them (benchmarks/measured/engines): a fit on it
is no fit of all. Each shape is held out once, on all devices together. A quarter of an hour for all tables.
"""

import argparse
import itertools
import json
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
from engine_fits.fitting import Problem, fit_devices, held_out
from engine_fits.floors import below_floors
from engine_fits.kinds import KINDS, device_of
from engine_fits.tables import MOST_DROPPED, dropped, length, read, table_of, taken, write_sample
from engine_fits.write import SOURCES, renewed, rounded, versions

from archcli.wings.serving.devices.engines import kernels_folder, load_kernels, measured_engines
from archcli.wings.serving.predict.engine_kernels.choice import entry_for

LIMITS = {
    ("attention", "prefill"): 0.13,
    ("attention", "decode"): 0.14,
    ("latent", "prefill"): 0.14,
    ("latent", "decode"): 0.14,
    ("experts", ""): 0.22,
    ("all_reduce", "graph"): 0.14,
    ("convolution", "decode"): 0.06,
    ("recurrence", "decode"): 0.06,
    ("convolution", "prefill"): 0.20,
    ("recurrence", "prefill"): 0.20,
}
"""The mean error of held-out rows that is demanded of an operation, over all devices and engines."""
OUTER = (0.1, 0.9)
SAMPLE_SIZE, SEED = 12, 7
"""Rows that the project keeps of each table, device and engine."""


def kernels(kind, rows):
    """The rows of a kind by engine, kernel and dtypes, and these by device."""
    where = kind.rows_of(rows)
    names = ("engine", "op", "kernel", "dtype", "cache_dtype", "step")
    columns = [rows[name] if name in rows else np.full(length(rows), "") for name in names]
    keys = np.array(["|".join(key) for key in zip(*columns, strict=True)])
    found = {}
    for key in sorted(set(keys[where])):
        few = where & (keys == key)
        devices = sorted(set(rows["device"][few]))
        found[tuple(key.split("|"))] = {name: taken(rows, few & (rows["device"] == name)) for name in devices}
    return found


def identity(key):
    """The name of a kernel, and its dtypes, as an entry states them."""
    engine, op, kernel, dtype, cache, step = key
    name = " ".join(part for part in (op, kernel, step) if part)
    known = {"kernel": name.replace(" ", "_"), "dtype": dtype or "bf16"}
    return engine, {**known, "cache": cache} if cache else known


def widths(rows):
    """Head widths that were measured, with a w where with a window."""
    if "head_dim" not in rows:
        return {}
    pairs = {(int(width), window > 0) for width, window in zip(rows["head_dim"], rows["window"], strict=True)}
    return {"widths": [f"{width}{'w' if has_window else ''}" for width, has_window in sorted(pairs)]}


def problems_of(kind, key, by_device):
    """A kernel's problems by device."""
    dtype = identity(key)[1]["dtype"]
    return {
        name: Problem(kind, key[2] or key[1], device_of(name, dtype), rows)
        for name, rows in by_device.items()
    }


def fit_kernel(kind, key, by_device):
    """The entries of a kernel by device, and its held-out errors."""
    _, known = identity(key)
    problems = problems_of(kind, key, by_device)
    logs = fit_devices(problems)
    logs = fit_devices(problems, logs)
    residuals = held_out(kind, problems, logs)
    for name, problem in problems.items():
        constants = problem.constants(logs[name])._asdict()
        defaults = kind.constants._field_defaults
        stated = {one: rounded(constants[one]) for one in problem.names}
        flags = {one: True for one, value in problem.fixed.items() if value is True}
        chosen = {one: constants[one] for one in problem.fixed if constants[one] != defaults.get(one)}
        low, high = np.quantile(np.exp(-residuals[name]), OUTER)
        error = np.mean(np.abs(np.expm1(residuals[name])))
        origin = {"rows": length(problem.rows), "error": rounded3(error)}
        origin |= {"low": rounded3(low), "high": rounded3(high), **widths(problem.rows)}
        whole = problem.rows["ep"] == 1 if "ep" in problem.rows else slice(0)
        yield name, {**known, **origin, **stated, **chosen, **flags}, residuals[name], residuals[name][whole]


def rounded3(number):
    """A number of three digits."""
    return float(f"{number:.3g}")


@cache
def kept(folder, table):
    """The rows of a table that are not left out."""
    rows = read(folder / f"{table}.csv")
    out = dropped(table, rows)
    if out.mean() > MOST_DROPPED:
        raise SystemExit(f"{table}: {out.mean():.1%} of the rows are left out, more than {MOST_DROPPED:.0%}")
    return taken(rows, ~out)


def fit_all(folder, only, jobs):
    """Entries by engine, device and operation; and a record of held-out errors for each."""
    found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    errors = []
    tasks = [
        (folder, number, table, key)
        for number, kind in enumerate(KINDS)
        for table in kind.tables
        if only in kind.name
        for key in kernels(kind, kept(folder, table))
    ]
    with ProcessPoolExecutor(jobs) as pool:
        for engine, table, number, entries in pool.map(_fit_task, *zip(*tasks, strict=True)):
            kind = KINDS[number]
            for device, entry, residuals, whole in entries:
                found[device][engine][kind.name].append(entry)
                record = {"table": table, "device": device, "engine": engine, "phase": kind.phase}
                record |= {"op": kind.op, "kernel": entry["kernel"]}
                errors.append({**record, "residuals": residuals, "whole": whole})
            print(f"  {kind.name} {table} {engine}", flush=True)
    return found, errors


def _fit_task(folder, number, table, key):
    """The entries of a kernel, with the version that was measured; the work of one process at a time."""
    kind, engine = KINDS[number], identity(key)[0]
    stated = versions(folder / "kernels_sources.csv")
    entries = list(fit_kernel(kind, key, kernels(kind, kept(folder, table))[key]))
    for device, entry, *_ in entries:
        source = "nccl_perf" if engine == "nccl" else SOURCES.get(kind.name, "gdn_perf")
        entry["version"] = stated[source, device, engine]
    return engine, table, number, entries


def ordered(found, only):
    """Entries by engine, devices and operations in their order, with those that were not fitted this time."""
    names = [kind.name for kind in KINDS]
    for engine in measured_engines():
        stated = load_kernels(engine)
        of_engine = {}
        for device in sorted({*stated, *found}):
            old, new = stated.get(device, {}), found.get(device, {}).get(engine, {})
            both = {name: new.get(name) or (old.get(name) if only not in name else None) for name in names}
            if any(both.values()):
                of_engine[device] = {name: entries for name, entries in both.items() if entries}
        yield engine, of_engine


def constants_of(kind, entry):
    """The record of constants that an entry states."""
    return kind.constants(**{name: entry[name] for name in kind.constants._fields if name in entry})


def expected(kind, key, device, rows, on=None):
    """Seconds of rows by the constants that engines/*.yaml state of a device; None where there are none.

    `on` is the device whose peaks count, where it is another.
    """
    engine, known = identity(key)
    entries = load_kernels(engine).get(device, {}).get(kind.name, ())
    entry = entry_for(entries, known)
    if entry is None:
        return None
    return kind.seconds(constants_of(kind, entry), kind.call(rows), device_of(on or device, known["dtype"]))


def check(path):
    """Errors of the stated constants on the rows of a file, by device, engine, phase and operation."""
    rows = read(path)
    table = table_of(path, rows)
    out = dropped(table, rows)
    groups = defaultdict(lambda: {"dropped": 0, "errors": []})
    for kind in KINDS:
        if table in kind.tables:
            for name, few in _groups(kind, taken(rows, out)):
                groups[_group(kind, *name)]["dropped"] += length(few)
            for name, few in _groups(kind, taken(rows, ~out)):
                _add_errors(groups[_group(kind, *name)], kind, *name, few)
    return [_record(table, name, group) for name, group in sorted(groups.items())]


def _groups(kind, rows):
    """The rows of a kind by kernel and device."""
    for key, by_device in kernels(kind, rows).items():
        for device, few in by_device.items():
            yield (key, device), few


def _group(kind, key, device):
    """What a record of a check is of: device, engine, phase and operation."""
    return device, key[0], kind.phase, key[1] or kind.op


def _add_errors(group, kind, key, device, rows):
    """Add the errors of rows; without constants they are left out."""
    seconds = expected(kind, key, device, rows)
    if seconds is None:
        group["dropped"] += length(rows)
    else:
        group["errors"].extend(np.abs(seconds * 1e6 / rows["time_us"] - 1))


def _record(table, name, group):
    device, engine, phase, op = name
    errors = group["errors"]
    record = {"table": table, "device": device, "engine": engine, "phase": phase, "op": op}
    record |= {"rows": len(errors), "dropped": group["dropped"]}
    figures = [round(float(figure(errors)), 4) if errors else None for figure in (np.mean, np.median)]
    return {**record, **dict(zip(("mean", "median"), figures, strict=True))}


def show(errors):
    """Print held-out errors by operation, engine and device, and those that are above their limit."""
    groups = defaultdict(list)
    for record in errors:
        groups[record["op"], record["phase"], record["table"]].append(record)
    for (op, phase, table), records in groups.items():
        cells = defaultdict(list)
        for record in records:
            cells[record["device"], record["engine"]].append(np.abs(np.expm1(record["residuals"])))
        every = np.concatenate([errors for parts in cells.values() for errors in parts])
        worst = max(cells, key=lambda cell: np.concatenate(cells[cell]).mean())
        limit = LIMITS.get((op, phase))
        line = f"{op:15s}{phase:9s}{table:22s}{len(every):6d}{every.mean():8.1%}{np.median(every):8.1%}"
        line += f"{np.quantile(every, OUTER[1]):8.1%}"
        at_worst = np.concatenate(cells[worst]).mean()
        print(f"{line}{f'{limit:.0%}' if limit else '':>6s}  worst {worst[0]} {worst[1]} {at_worst:.1%}")
        whole = np.concatenate([record["whole"] for record in records])
        if len(whole):
            print(f"    of whole layers, ep 1: {np.abs(np.expm1(whole)).mean():.1%}")
        for cell, parts in sorted(cells.items()):
            print(f"    {cell[0]:20s}{cell[1]:8s}{np.concatenate(parts).mean():8.1%}")


def show_stated():
    """Print the errors that engines/*.yaml state, by operation."""
    groups = defaultdict(list)
    for engine in measured_engines():
        for device, operations in load_kernels(engine).items():
            for operation, entries in operations.items():
                groups[operation].extend((entry["error"], entry["rows"], device, engine) for entry in entries)
    for operation, entries in groups.items():
        error = np.average([entry[0] for entry in entries], weights=[entry[1] for entry in entries])
        print(f"{operation:20s}{sum(entry[1] for entry in entries):7d} rows  mean error {error:.1%}")


ALIKE = (("h100-sxm", "h200-sxm"), ("b200-sxm", "b300-sxm", "gb200", "gb300"))
"""Measured devices of one generation."""


def show_lent(folder):
    """Print how far the constants of a device are on the others of its generation, beside their own."""
    ratios = defaultdict(list)
    for kind in KINDS:
        for table in kind.tables:
            for key, by_device in kernels(kind, kept(folder, table)).items():
                for group in ALIKE:
                    for device, other in itertools.permutations(set(group) & set(by_device), 2):
                        rows = by_device[device]
                        for name in (device, other):
                            seconds = expected(kind, key, name, rows, on=device)
                            measured = rows["time_us"] * 1e-6 / seconds
                            ratios[kind.name, "own" if name == device else "lent"].append(measured)
    for (name, whose), parts in ratios.items():
        every = np.concatenate(parts)
        low, high = np.quantile(every, OUTER)
        error = np.abs(1 / every - 1).mean()
        print(f"{name:20s}{whose:6s}{len(every):7d}{error:8.1%}  80% within {low:.2f} to {high:.2f}")


def main():
    """Fit, check, or print what is stated."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--fit", type=Path, metavar="FOLDER", help="the folder of the tables")
    parser.add_argument("--only", default="", help="operations whose name has this text")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help="write the constants into engines/*.yaml")
    parser.add_argument("--check", type=Path, metavar="FILE", help="rows of one of the tables")
    parser.add_argument("--sample", type=Path, metavar="FOLDER", help="the folder of the tables")
    parser.add_argument("--lent", type=Path, metavar="FOLDER", help="the folder of the tables")
    parser.add_argument("--floors", type=Path, metavar="FOLDER", help="the folder of the tables")
    asked = parser.parse_args()
    if asked.check:
        print(json.dumps(check(asked.check), indent=1))
    elif asked.sample:
        write_sample(asked.sample, SAMPLE_SIZE, SEED)
    elif asked.lent:
        show_lent(asked.lent)
    elif asked.floors:
        for record in below_floors(asked.floors):
            print(json.dumps(record))
    elif asked.fit:
        found, errors = fit_all(asked.fit, asked.only, asked.jobs)
        show(errors)
        if asked.write:
            for engine, devices in ordered(found, asked.only):
                path = kernels_folder() / f"{engine}.yaml"
                path.write_text(renewed(path.read_text(encoding="utf-8"), devices), encoding="utf-8")
    else:
        show_stated()


if __name__ == "__main__":
    main()
