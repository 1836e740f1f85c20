"""What is wrong with the answer to a valid question: exit code, messages, each figure of its JSON."""

import csv
import io
import json
import math
import re
from itertools import pairwise

SIGNED = {"off", "error", "derivative", "at", "elasticity", "doubled", "growth"}
"""Keys of figures that may be below 0: how far off a shape or an approximation is, how a formula grows."""
RATES = ("tokens_per_s", "tokens_per_unit")
"""Begin the keys of figures of which the floor of the time gives the most."""
ORDER = ("floor", "low", "expected", "high")
CLOSE = {"rel_tol": 1e-6, "abs_tol": 1e-12}
ODD = re.compile(r"(?<![\w.-])-?(nan|inf)(?![\w.-])", re.IGNORECASE)


def refused(constant):
    raise ValueError(f"{constant} is no JSON")


def figures(value, path=""):
    """(path, number) of every number in a JSON tree."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from figures(inner, f"{path}.{key}")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def figures_of(document):
    """Figures of a document that no architecture has: not finite, or below 0."""
    numbers = figures({name: document[name] for name in ("totals", "rows") if name in document})
    return [f"{path} is {n}" for path, n in numbers if not is_plain(path, n)]


def mappings(value, path=""):
    """(path, mapping) of every mapping in a JSON tree."""
    if isinstance(value, dict | list):
        if isinstance(value, dict):
            yield path, value
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from mappings(inner, f"{path}.{key}")


def of_json(text):
    """What is wrong with a document that --json printed."""
    try:
        document = json.loads(text, parse_constant=refused)
    except ValueError as error:
        return [f"no JSON: {error}"]
    faults = figures_of(document)
    faults += [fault for path, mapping in mappings(document["totals"]) for fault in of_range(path, mapping)]
    totals = document["totals"]
    if totals.get("verdict") == "unknown":  # a form whose bytes are not known
        figures = [name for name in totals.keys() - {"verdict", "form"} if totals[name] is not None]
        return [*faults, *(f"{name} is given of an unknown form" for name in figures)]
    return [*faults, *JUDGES[document["command"]](totals, document["rows"], document["inputs"])]


def is_plain(path, number):
    """Whether a figure is finite, and below 0 only where its key may be."""
    return math.isfinite(number) and (number >= 0 or bool(SIGNED & {*path.split(".")}))


def of_range(path, mapping):
    """floor <= low <= expected <= high; of a rate the floor is the most."""
    if not {*ORDER} <= {*mapping}:
        return
    values = [mapping[name] for name in ORDER]
    if any(part.startswith(RATES) for part in path.split(".")):
        values = [*values[1:], values[0]]
    known = [value for value in values if value is not None]
    if any(a > b and not math.isclose(a, b, **CLOSE) for a, b in pairwise(known)):
        yield f"{path} is out of order: {mapping}"


def of_memory(totals, rows, _):
    """Parts sum to their moment's peak, the peak is that of the highest moment and of the largest rank."""
    moments = [*totals["moments"], *totals["ranks"], totals]
    for moment in moments:
        if sum(moment["parts"].values()) != moment["peak_bytes"]:
            yield f"parts of {moment['moment']} are not its {moment['peak_bytes']} bytes"
    peak = totals["peak_bytes"]
    if peak != max(moment["peak_bytes"] for moment in totals["moments"]):
        yield "the peak is not the highest moment's"
    if peak != max(rank["peak_bytes"] for rank in totals["ranks"]):
        yield "the peak is not the largest rank's"
    if totals["beyond_bytes"] != sum(part["bytes"] for part in totals["beyond"]):
        yield "what is beyond the model is not the sum of its parts"
    if sum(row["kept_bytes"] for row in rows) != totals["kept_bytes"]:
        yield f"rows keep {sum(row['kept_bytes'] for row in rows)} of {totals['kept_bytes']} bytes"
    yield from of_fit(totals)


def of_fit(totals):
    """What --fit recommends has a peak, and no answer that takes nothing."""
    for path, mapping in mappings(totals["fit"], "fit"):
        if mapping.get("peak_bytes") == 0:
            yield f"{path} takes no memory"


def of_predict(totals, rows, inputs):
    """Rows and collectives make up the time; a floor is no more than what is expected; tokens over time."""
    time = totals["time_s"]
    seconds = time["floor"] if time["expected"] is None else time["expected"]
    classes = sum(totals["by_class"].values())
    whole = inputs["phase"] != "serve" and inputs.get("engine", "none") == "none"  # beside its kernels
    if whole and not math.isclose(classes, seconds, rel_tol=1e-6):
        yield f"classes take {classes} of {seconds} s"
    rate = totals["tokens_per_s"]["floor"] * time["floor"]
    if not math.isclose(rate, totals["tokens"], rel_tol=1e-6):
        yield f"{totals['tokens']} tokens are not the rate times the time: {rate}"
    for row in rows:
        if row["floor_s"] > row["time_s"] * (1 + 1e-6):
            yield f"{row['path']} {row['kernel']}: floor {row['floor_s']} above {row['time_s']}"
    for sent in totals["communication"]:
        if sent["exposed_s"] > sent["exposed_most_s"] * (1 + 1e-9) or sent["exposed_most_s"] > sent[
            "time_s"
        ] * (1 + 1e-9):
            yield f"more of a collective is exposed than it takes: {sent}"
    if not 0 <= totals["mfu"] <= totals["hfu"] * (1 + 1e-9) or totals["hfu"] > 1 + 1e-6:
        yield f"mfu {totals['mfu']}, hfu {totals['hfu']}"
    if sum(limit["share"] for limit in totals["limits"]) > 1 + 1e-6:
        yield "what limits it takes more than all of the time"


def of_cache(totals, rows, _):
    """Keys and values and states make up the cache; so do the rows, and what each row holds."""
    if totals["elements"] != totals["kv_elements"] + totals["state_elements"]:
        yield "keys, values and states are not all elements"
    if totals["bytes"] != totals["kv_bytes"] + totals["state_bytes"]:
        yield "keys, values and states are not all bytes"
    for name, rounded in (("elements", 0), ("bytes", len(rows))):  # a row's last bits make a whole byte
        if not 0 <= sum(row[name] for row in rows) - totals[name] <= rounded:
            yield f"rows hold {sum(row[name] for row in rows)} of {totals[name]} {name}"
    fits = totals.get("fits") or {}
    beside, only = fits.get("beside_weights") or {}, fits.get("cache_alone") or {}
    # an engine that keeps an input of each convolution less may serve more than fits as it is counted
    less = (totals.get("held") or {}).get("bytes", 0) < totals["bytes"]
    served = {} if less else fits.get("served") or {}
    for name in ("tokens", "sequences"):
        many = [mapping.get(name) for mapping in (served, beside, only)]
        known = [n for n in many if n is not None]
        if known != sorted(known):
            yield f"{name} that fit served, beside weights, alone: {many}"


def of_sweep(totals, rows, _):
    """Every candidate is counted once; no more are shown than match."""
    tried = sum(totals["dropped"].values()) + totals["matching"] + totals["broken"]
    if not len(rows) <= totals["matching"] <= tried <= totals["candidates"]:
        yield f"{len(rows)} rows, {totals['matching']} match, {tried} tried of {totals['candidates']}"


def of_scale(totals, rows, _):
    """The shape is as far off the parameters asked for as it says; what a law says has tokens."""
    asked_for = totals["asked_params"]
    if not math.isclose(totals["params"] / asked_for - 1, totals["off"], abs_tol=1e-9):
        yield f"{totals['params']} of {asked_for} parameters are not off by {totals['off']}"
    if totals["steps"] < 1 or totals["tokens"] < 1:
        yield f"{totals['tokens']} tokens in {totals['steps']} steps"
    if not rows:
        yield "no row of sizes"


def of_formula(totals, rows, _):
    """Components sum to the whole, and so do their shares."""
    if sum(row["value"] for row in rows) != totals["value"]:
        yield f"components are {sum(row['value'] for row in rows)} of {totals['value']}"
    if totals["value"] and not math.isclose(sum(row["share"] for row in rows), 1, rel_tol=1e-9):
        yield f"shares sum to {sum(row['share'] for row in rows)}"


def of_findings(totals, rows, _):
    """Findings are counted by severity and by code."""
    if "findings" in totals and totals["findings"] != totals["errors"] + totals["warnings"] + totals["infos"]:
        yield "findings of all severities are not all findings"
    if sum(totals["by_code"].values()) != totals["findings"]:
        yield "findings of all codes are not all findings"


def of_devices(totals, rows, _):
    """As many rows as it says."""
    if totals.get("devices", totals.get("figures")) != len(rows):
        yield f"{len(rows)} rows of {totals}"


JUDGES = {
    "memory": of_memory,
    "predict": of_predict,
    "kvcache": of_cache,
    "sweep": of_sweep,
    "scale": of_scale,
    "explain": of_formula,
    "check": of_findings,
    "devices": of_devices,
}


def of_text(form, text):
    """What is wrong with another form: empty, a number that is none, a CSV whose lines differ in length."""
    if not text.strip() and form not in {"github", "concise"}:
        yield f"an empty answer as {form}"
    if ODD.search(text):
        yield f"{ODD.search(text).group()} stands in the answer"
    if form == "csv":
        lengths = {len(line) for line in csv.reader(io.StringIO(text)) if line}
        if len(lengths) > 1:
            yield f"lines of {lengths} columns"


def judged(arguments, code, out, err):
    """What is wrong with an answer; `out` is what was printed, or the file that -o names."""
    if code == 2:
        faults = [] if re.search(r"error: .|Usage: |Invalid value", err) else ["refused without a message"]
        broken = re.search(r"Traceback|counting gives|report this", err)
        return [*faults, f"{broken.group()} on standard error"] if broken else faults
    if code not in {0, 1} or (code == 1 and arguments[0] != "check"):
        return [f"exit code {code}"]
    faults = ["a traceback or warning on standard error"] if re.search(r"Traceback|Warning:", err) else []
    form = form_of(arguments)
    return faults + (of_json(out) if form == "json" else [*of_text(form, out)])


def form_of(arguments):
    """The format that the arguments ask for."""
    if "--json" in arguments:
        return "json"
    if "--suggest" in arguments:
        return "concise"  # a patch may be empty
    return arguments[arguments.index("--format") + 1] if "--format" in arguments else "plain"
