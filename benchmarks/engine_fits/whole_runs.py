"""Constants of engines of whole runs: fitted on published runs, each device held out.

A family of devices has constants of its own where at least `LEAST` of its rows are decoded, else those of the
next family that its devices belong to. Runs of before `NEW` may be slower by a factor of their own, which
no constant knows.
"""

import datetime as dt
from collections import Counter
from math import ceil

import numpy as np
from efficiency.held_out import mean_error, rounded, share
from efficiency.simplex import minimized

from archcli.wings.serving.api.known_device.known import known_device
from archcli.wings.serving.api.known_device.whole_runs import described, families_of
from archcli.wings.serving.devices.engines import load_speeds, speeds_file
from archcli.wings.serving.memory.answers.offloading import has_experts
from archcli.wings.serving.predict.engine_kernels.choice import BORROWED
from archcli.wings.serving.predict.engine_kernels.whole_runs import (
    EXPONENT,
    FP32,
    ONE,
    PROMPT,
    SEVERAL,
    VECTORS,
    peak,
)
from archcli.wings.serving.predict.rank.kernels import rank_kernels
from archcli.wings.serving.predict.rank.planned import planned_pass
from archcli.wings.serving.predict.serving import prompt_chunks
from archcli.wings.serving.predict.times import ATTENTION, GROUPED, PRODUCTS, kind_of

ENGINES = ("llamacpp", "mlx")
BEGIN = "speeds: # made by benchmarks/refit.py --write\n"
LEAST, FOLDS, NEW, OUTER, PULL = 10, 8, 2025, 0.1, 2e-2
DEVICES = 3
"""Devices from which those held out tell the range."""
OWN, SHRUNK, FEW = 6, 3, 64
"""Rows from which a device has a factor of its own, rows that pull it to 1, tokens of a short chunk."""
LAUNCH, MEMORY, OF_ATTENTION, EXPERTS, OLD_GENERATION, OLD_PROMPT = 0, 1, 6, 7, 8, 9
COMPUTE = {(ONE, True): 2, (ONE, False): 3, (PROMPT, True): 4, (PROMPT, False): 5}
START = (1.8, 2.0, -1.4, -2.5, -0.5, -0.5, -0.5, -0.2, 0.1, 0.1)
"""Logarithms of launch, experts and old runs; other numbers are fractions, as `share` takes them."""


def load(row):
    """One decoded sequence, several, or a prompt; chunks of few tokens are as several sequences."""
    if row.phase == "decode":
        return ONE if row.ask.get("batch_size", 1) == 1 else SEVERAL
    return SEVERAL if row.ask.get("chunk", FEW + 1) <= FEW else PROMPT


def passes(question):
    """The passes of a question with their weights, and their settings."""
    settings = question.settings
    chunk = question.device.timing.chunk
    if settings.phase != "prefill" or chunk is None:
        return [(1, settings)]
    return list(prompt_chunks(settings, question.model, chunk))


class Runs:
    """The kernels of rows, flat, and how to time them by a set of numbers."""

    def __init__(self, rows):
        """Read the kernels and the device's rates of each row."""
        parts = []
        self.rows, self.measured = rows, np.array([row.measured_s for row in rows])
        for at, row in enumerate(rows):
            question = row.question
            rates, packed = question.device.timing.clock.rates, question.model.quantization is not None
            peaks = max(peak(rates), 1.0)
            for weight, settings in passes(question):
                planned = planned_pass(question.model, settings, question.plan)
                tokens = 1 if settings.phase == "decode" else int(settings.seq_len)
                vectors = int(settings.batch_size) * tokens
                for run in rank_kernels(planned, settings, question.plan, question.cache).kernels:
                    kind, kernel = kind_of(run.op_class, run.kernel.name), run.kernel
                    flops = kernel.flops if kind in (PRODUCTS, ATTENTION) else 0
                    place = OF_ATTENTION if kind == ATTENTION else COMPUTE[PROMPT, packed]
                    outside = rates.peaks.get(FP32, peaks) / peaks * max(1.0, vectors / VECTORS)
                    is_vector = kind == PRODUCTS
                    grouped = kernel.name == GROUPED and load(row) == PROMPT
                    numbers = (
                        at,
                        place,
                        COMPUTE[ONE, packed],
                        is_vector,
                        outside,
                        grouped,
                        weight * run.times,
                    )
                    parts.append((*numbers, flops / peaks, kernel.bytes / rates.bandwidth))
        columns = np.array(parts).T
        self.at, self.place, self.of_vector = (column.astype(int) for column in columns[:3])
        self.is_vector, self.outside, self.grouped, self.times, self.flops, self.bytes = columns[3:]
        self.old = np.array([row.year < NEW for row in rows])
        self.prompt = np.array([load(row) == PROMPT for row in rows])
        self.devices = np.array([row.device for row in rows])
        self.kinds = np.array([f"{load(row)} {experts_of(row)}" for row in rows])

    def seconds(self, numbers, *, new=False):
        """Seconds of all rows; with `new` as if all were runs of today."""
        launch, fractions = np.exp(numbers[LAUNCH]) * 1e-6, share(np.asarray(numbers))
        compute = fractions[self.place]
        by_vector = np.minimum(compute, fractions[self.of_vector] * self.outside)
        compute = np.where(self.is_vector > 0, by_vector, compute)
        compute = np.where(self.grouped > 0, compute * min(1.0, np.exp(numbers[EXPERTS])), compute)
        both = (self.flops / compute) ** EXPONENT + (self.bytes / fractions[MEMORY]) ** EXPONENT
        each = self.times * (launch + both ** (1 / EXPONENT))
        total = np.bincount(self.at, each, len(self.rows))
        slower = np.exp(np.where(self.prompt, numbers[OLD_PROMPT], numbers[OLD_GENERATION]))
        return total if new else np.where(self.old, total * slower, total)

    def fitted(self, chosen, start):
        """The numbers of the least mean logarithm of errors; each device with the root of its rows.

        What no row tells stays near the start.
        """
        often = Counter(self.devices[chosen])
        weights = np.array([often[device] ** -0.5 for device in self.devices[chosen]])

        def loss(numbers):
            errors = np.abs(np.log(self.seconds(numbers)[chosen] / self.measured[chosen]))
            pull = PULL / len(often) * np.sum(np.abs(np.asarray(numbers) - start))
            return np.sum(weights * errors) / np.sum(weights) + pull

        return minimized(loss, start)

    def held_out(self, chosen, start):
        """Measured over expected of each row while its device was held out; nan of one device alone."""
        devices = sorted(set(self.devices[chosen]))
        order = np.random.default_rng(0).permutation(len(devices))
        fold = {devices[at]: number % FOLDS for number, at in enumerate(order)}
        ratios = np.full(len(self.rows), np.nan)
        for held in sorted(set(fold.values())) if len(devices) > 1 else ():
            out = chosen & np.array([fold.get(device) == held for device in self.devices])
            ratios[out] = (self.measured / self.seconds(self.fitted(chosen & ~out, start)))[out]
        return ratios


def experts_of(row):
    """Whether the model of a row is a mixture, as the kinds have it."""
    return "mixture" if has_experts(row.subject.model) else "dense"


def range_of(ratios):
    """Ends that hold 80% of rows like these, of which few are known: the next row outwards."""
    ordered, number = np.sort(ratios), len(ratios)
    beyond = min(number - 1, ceil((number + 1) * (1 - OUTER)) - 1)
    return float(ordered[number - 1 - beyond]), float(ordered[beyond])


def slower(runs, chosen, ratios, wider):
    """The factor of each kind on the time, where devices held out err less with that of the others.

    Kinds that no row is of have that of the wider family. Several sequences are never faster than one.
    """
    found = {kind: known["slower"] for kind, known in wider.items()}
    for kind in sorted(set(runs.kinds[chosen])):
        of_kind = chosen & (runs.kinds == kind)
        logs, devices = np.log(ratios[of_kind]), runs.devices[of_kind]
        if len(set(devices)) < DEVICES:
            found[kind] = 1.0  # the numbers are fitted to those few
            continue
        of_others = np.array(
            [middle(logs[devices != device], devices[devices != device]) for device in devices]
        )
        errs_less = np.median(np.abs(logs - of_others)) < np.median(np.abs(logs))
        found[kind] = rounded(np.exp(middle(logs, devices)), 3) if errs_less else 1.0
    for model in ("dense", "mixture"):
        one, several = (found.get(f"{load} {model}", 1.0) for load in (ONE, SEVERAL))
        found[f"{SEVERAL} {model}"] = max(one, several)
    return found


def middle(logs, devices):
    """The median of the devices' medians: no device counts for more than another."""
    return np.median([np.median(logs[devices == device]) for device in sorted(set(devices))])


def factors(runs, expected, chosen):
    """The factor of each device that was measured often, on generation and on prompts."""
    ratios = np.log(runs.measured / expected)
    found = {}
    for device in sorted(set(runs.devices[chosen])):
        for name, is_prompt in (("generation", False), ("prompt", True)):
            rows = chosen & (runs.devices == device) & (runs.prompt == is_prompt)
            if rows.sum() >= OWN:
                factor = np.exp(np.median(ratios[rows]) * rows.sum() / (rows.sum() + SHRUNK))
                found.setdefault(device, {})[name] = rounded(factor, 3)
    return found


def near(runs, expected, chosen):
    """Measured over expected of rows of such devices; the factor of others of another model and source.

    nan where there are none: what one source measured of a device does not tell what others will.
    """
    ratios = np.log(runs.measured / expected)
    models, sources = (np.array([getattr(row, name) for row in runs.rows]) for name in ("model", "source"))
    found = np.full(len(runs.rows), np.nan)
    for at in np.flatnonzero(chosen):
        alike = chosen & (runs.devices == runs.devices[at]) & (runs.prompt == runs.prompt[at])
        others = alike & (models != models[at]) & (sources != sources[at])
        if alike.sum() >= OWN and others.any():
            found[at] = np.exp(
                ratios[at] - np.median(ratios[others]) * others.sum() / (others.sum() + SHRUNK)
            )
    return found


def kinds_of(runs, chosen, expected, ratios, wider):
    """The range of each kind of question: of devices held out, or with those of the wider family."""
    by_row, near_rows = runs.measured / expected, near(runs, expected, chosen)
    found = dict(wider)
    for kind in sorted(set(runs.kinds[chosen])):
        of_kind = chosen & (runs.kinds == kind)
        devices = len(set(runs.devices[of_kind]))
        if devices >= DEVICES:
            low, high = range_of(ratios[of_kind])
            error = mean_error(ratios[of_kind])
        elif kind in wider:
            ends = [range_of(by_row[of_kind]), (wider[kind]["low"], wider[kind]["high"])]
            low, high = min(end[0] for end in ends), max(end[1] for end in ends)
            error = max(mean_error(by_row[of_kind]), wider[kind]["error"])
        elif of_kind.sum() >= OWN:
            low, high = range_of(by_row[of_kind])
            low, high, error = low / BORROWED, high * BORROWED, mean_error(by_row[of_kind])
        else:
            continue
        found[kind] = {"slower": 1.0, "low": rounded(low, 3), "high": rounded(high, 3)}
        found[kind] |= {"error": rounded(error, 3), "rows": int(of_kind.sum()), "devices": devices}
        known = near_rows[of_kind & ~np.isnan(near_rows)]
        if len(known) >= LEAST:
            ends = [range_of(known)]
            if devices < DEVICES and "near_low" in wider.get(kind, {}):
                ends.append((wider[kind]["near_low"], wider[kind]["near_high"]))
            low, high = min(end[0] for end in ends), max(end[1] for end in ends)
            found[kind] |= {"near_low": rounded(low, 3), "near_high": rounded(high, 3)}
    return found


def entry(runs, chosen, start, wider):
    """What the YAML states of a family; its numbers, and measured over expected of its rows held out."""
    numbers, ratios = runs.fitted(chosen, start), runs.held_out(chosen, start)
    of_kinds = slower(runs, chosen, ratios, wider)
    of_rows = np.array([of_kinds.get(kind, 1.0) for kind in runs.kinds])
    expected, ratios = runs.seconds(numbers) * of_rows, ratios / of_rows
    fractions = [rounded(one) for one in share(numbers)]
    stated = {"launch_us": rounded(np.exp(numbers[LAUNCH])), "memory": fractions[MEMORY]}
    stated |= {"attention": fractions[OF_ATTENTION], "experts": rounded(min(1.0, np.exp(numbers[EXPERTS])))}
    for load, name in ((ONE, "generation"), (PROMPT, "prompt")):
        stated[name] = {"quantized": fractions[COMPUTE[load, True]], "plain": fractions[COMPUTE[load, False]]}
    ranges = kinds_of(runs, chosen, expected, ratios, wider)
    stated["kinds"] = {kind: known | {"slower": of_kinds[kind]} for kind, known in ranges.items()}
    stated["devices"] = factors(runs, expected, chosen)
    stated["table"] = "measured/speed"
    stated["fitted"] = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return stated, numbers, ratios


def families(engine, rows):
    """The families of each row's device, the narrowest first."""
    known = {row.device: known_device(row.device).budget for row in rows}
    return [list(families_of(engine, described(known[row.device]))) for row in rows]


def fits(row):
    """Whether a row is one device's, and the model fits it."""
    return row.number == 1 and row.question.memory().fits()


def renew(engine, every, *, write):
    """Fit the families of an engine's devices, print the errors, and write the constants if asked to."""
    rows = [row for row in every if row.engine == engine and row.phase != "serve" and fits(row)]
    runs, of_rows = Runs(rows), families(engine, rows)
    entries, start, wider = {}, np.array(START), {}
    *narrow, widest = load_speeds(engine)["families"]
    for name in (widest, *narrow):
        chosen = np.array([name == (of_row[0] if name != widest else of_row[-1]) for of_row in of_rows])
        if (chosen & ~runs.prompt).sum() < LEAST:
            continue
        entries[name], numbers, ratios = entry(runs, chosen, start, wider)
        if name == widest:
            start, wider = numbers, entries[name]["kinds"]
        show(name, runs, chosen, ratios)
    if write:
        path = speeds_file(engine)
        before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
        by_hand = rest[rest.index("  cpu:\n") :] if "  cpu:\n" in rest and "cpu" not in entries else ""
        path.write_text(
            before + written({name: entries[name] for name in (*narrow, widest) if name in entries}) + by_hand
        )
    return entries


def written(entries):
    """The text of the constants of all families."""
    lines = [BEGIN]
    for name, stated in entries.items():
        lines.append(f"  {name}:\n")
        for key, value in stated.items():
            if isinstance(value, dict) and any(isinstance(inner, dict) for inner in value.values()):
                lines.append(f"    {key}:\n")
                lines += [f"      {inner}: {flow(of_inner)}\n" for inner, of_inner in value.items()]
            else:
                lines.append(f"    {key}: {flow(value)}\n")
    return "".join(lines)


def flow(value):
    """A value on one line."""
    if not isinstance(value, dict):
        return value
    return f"{{{', '.join(f'{key}: {one}' for key, one in value.items())}}}"


def show(name, runs, chosen, ratios):
    """Print the errors of a family by kind, its devices held out."""
    for kind in sorted(set(runs.kinds[chosen])):
        of_kind = ratios[chosen & (runs.kinds == kind)]
        of_kind = of_kind[~np.isnan(of_kind)]
        if len(of_kind):
            low, high = range_of(of_kind)
            error = f"median error {np.median(np.abs(1 / of_kind - 1)):.1%}"
            print(f"  {name:16}{kind:18}{len(of_kind):4} rows  {error}  80% in {low:.2f} to {high:.2f}")
