"""Kinds of live servers: a factor on the time, and the range of measured over it, devices held out."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from math import exp, log
from multiprocessing import Pool

from efficiency.held_out import rounded

from archcli.errors import ArchError
from archcli.wings.serving.devices.engines import engine_file
from archcli.wings.serving.predict.engine_kernels.choice import BORROWED
from archcli.wings.serving.predict.live import FIRST, PASS, TOKEN, WHOLE, WIDEST
from engine_fits.asked import Row
from engine_fits.whole_runs import OUTER, flow

ENGINES = ("vllm", "sglang", "trtllm")
BEGIN = "# made by benchmarks/refit.py --write\nkinds:\n"
LEAST, DEVICES = 5, 2
MAKERS = ("amd ",)
LOADS = ("one", "several", "full")
NEUTRAL = {"slower": 1.0, "low": 1.0, "high": 1.0, "error": 0.0}


class Neutral(dict):
    """Kinds that change nothing."""

    def __missing__(self, kind):
        """A factor of 1."""
        return NEUTRAL

    def __contains__(self, kind):
        """Every kind is one."""
        return True


def kernels_alone(question):
    """The question without the factors of kinds."""
    return replace(question, live=question.live._replace(kinds=Neutral()))


def timed(row, question):
    """The kind of what a row measured, and its seconds as predicted."""
    answer = question.answer()
    live = question.live
    if row.phase == "serve":
        sequences = int(question.settings.batch_size)
        load = "full" if sequences > answer.served.at_once else "several" if sequences > 1 else "one"
        what = {"ms_token": TOKEN, "first_ms": FIRST}.get(row.metric, WHOLE)
        seconds = {TOKEN: answer.served.per_token, FIRST: answer.served.first_token}.get(what)
        seconds = answer.prediction.seconds if seconds is None else seconds
    else:
        load = "one" if row.ask.get("batch_size", 1) == 1 else "several"
        what, seconds = TOKEN if row.phase == "decode" else PASS, answer.prediction.seconds
    kind = " ".join(filter(None, (live.maker, what, load, live.of_model)))
    return kind, seconds


def ratios(rows):
    """(kind, device, model, measured over expected, source) of the rows of an engine that are answered."""
    found = []
    for row in rows:
        try:
            kind, seconds = timed(row, kernels_alone(row.question))
        except ArchError:
            continue
        if seconds.is_calibrated and (" full " in kind or row.question.memory().fits()):
            found.append((kind, row.device, row.model, row.measured_s / seconds.expected, row.source))
    return found


def of_servers(servers):
    """Rows of serving_live.csv in the form of measured/speed: each server's token, and its first."""
    for number, server in enumerate(servers):
        tp, ep, groups = (server[name] for name in ("tp", "ep", "groups"))
        plan = {"tp": tp} | ({"ep": ep} if ep > 1 else {}) | ({"dp_attention": groups} if groups > 1 else {})
        ask = {
            "device": f"{tp}x{server['system'].replace('_', '-')}",
            "engine": server["backend"],
            "dtype": server["dtype"],
            "phase": "serve",
            "batch_size": int(server["batch_size"]),
            "seq_len": int(server["isl"]),
            "new": int(server["osl"]),
            "plan": plan,
        }
        fields = {"model": server["model"], "sets": "", "ask": json.dumps(ask), "source": "", "note": ""}
        for metric, name in (("ms_token", "silicon_tpot_ms"), ("first_ms", "silicon_ttft_ms")):
            key = {
                "id": f"server{number}",
                "kind": f"live_{metric}",
                "metric": metric,
                "measured": server[name],
            }
            yield Row("serving_live", fields | key)


def weights(found):
    """The weight of each row: those of one source on one device count as the root of their number."""
    number = Counter((device, source) for _, device, _, _, source in found)
    return [number[device, source] ** -0.5 for _, device, _, _, source in found]


def quantile(values, of_each, part):
    """The value below which so much of the weights lies, of rows that come half a weight further out."""
    pairs = sorted(zip(values, of_each, strict=True))
    outer = max(of_each) / 2
    left = part * (sum(of_each) + 2 * outer) - outer
    for value, weight in pairs:
        left -= weight
        if left <= 0:
            return value
    return pairs[-1][0]


def middle(found):
    """The median of the logarithms of ratios."""
    return quantile([log(row[3]) for row in found], weights(found), 0.5)


def kind_entry(found, *, has_factor=True):
    """The factor of a kind and its range: devices held out, of another maker's one device models; or None.

    Without `has_factor` it is 1.
    """
    devices = {device for _, device, *_ in found}
    if len(devices) < DEVICES and not any(kind.startswith(MAKERS) for kind, *_ in found):
        return None
    at = 1 if len(devices) >= DEVICES else 2
    held, of_each = [], []
    for row, weight in zip(found, weights(found), strict=True):
        others = [other for other in found if other[at] != row[at]]
        if others:
            held.append(exp(log(row[3]) - (middle(others) if has_factor else 0.0)))
            of_each.append(weight)
    if len(held) < LEAST:
        return None
    wider = 1 if at == 1 else BORROWED
    low, high = (quantile(held, of_each, part) for part in (OUTER, 1 - OUTER))
    error = quantile([abs(1 / ratio - 1) for ratio in held], of_each, 0.5)
    slower = exp(middle(found)) if has_factor else 1.0
    stated = {"slower": slower, "low": low / wider, "high": high * wider, "error": error}
    return {name: rounded(value, 3) for name, value in stated.items()} | {
        "rows": len(found),
        "devices": len(devices),
    }


def rising(entries):
    """Join loads where a larger one has the smaller factor: more sequences never take less time.

    Loads whose range says nothing stay as they are.
    """
    for name in {kind.replace(load, "{}") for kind in entries for load in LOADS if f" {load} " in kind}:
        loads = [entries[kind] for load in LOADS if (kind := name.format(load)) in entries]
        loads = [entry for entry in loads if entry["high"] <= WIDEST * entry["low"]]
        while any(less["slower"] > more["slower"] for less, more in pairwise(loads)):
            for less, more in pairwise(loads):
                if less["slower"] > more["slower"]:
                    number = less["rows"] + more["rows"]
                    logs = [entry["rows"] * log(entry["slower"]) for entry in (less, more)]
                    joint = rounded(exp(sum(logs) / number), 3)
                    for entry in (less, more):
                        moved = entry["slower"] / joint
                        low, high = min(1.0, entry["low"] * moved), max(1.0, entry["high"] * moved)
                        entry.update(low=rounded(low, 3), high=rounded(high, 3), slower=joint)


def kinds(of_engines):
    """The kinds of each engine: its own or those of all engines, with a factor or without, as errs least."""
    every = defaultdict(list)
    for found in of_engines.values():
        for row in found:
            every[row[0]].append(row)
    entries = {}
    for engine, found in of_engines.items():
        own = defaultdict(list)
        for row in found:
            own[row[0]].append(row)
        entries[engine] = {}
        for kind in sorted(every):
            known = [
                kind_entry(of[kind], has_factor=has_factor)
                for has_factor in (True, False)
                for of in (own, every)
            ]
            if any(known):
                entries[engine][kind] = min(filter(None, known), key=lambda entry: entry["error"])
        rising(entries[engine])
    return entries


def write_kinds(engine, entries):
    """Write the kinds of an engine into its YAML, in place of those that it has."""
    path = engine_file(engine)
    before, _, _ = path.read_text(encoding="utf-8").partition(BEGIN)
    lines = [f"  {kind}: {flow(entry)}\n" for kind, entry in entries.items()]
    path.write_text(before + BEGIN + "".join(lines), encoding="utf-8")


def _ratio(given):
    return ratios([Row(*given)])


def renew(rows, *, write):
    """Ask every row of a live server, print the kinds, and write them if asked to."""
    chosen = {
        engine: [row for row in rows if row.engine == engine and row.phase != "train"] for engine in ENGINES
    }
    found = {}
    with Pool() as pool:
        for engine, of_engine in chosen.items():
            parts = pool.map(_ratio, [(row.table, row.fields) for row in of_engine], chunksize=8)
            found[engine] = [one for part in parts for one in part]
    for engine, entries in kinds(found).items():
        for kind, entry in entries.items():
            print(f"  {engine:8}{kind:28}{flow(entry)}")
        if write:
            write_kinds(engine, entries)
