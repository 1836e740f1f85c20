"""Tables and totals of `archcli predict`: times, rates, what takes the time, costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archcli.measure.report import Column, Table, Unit
from archcli.modules.models.layers import folded_path
from archcli.wings.serving.predict.answers.costs import HOUR, cost_record, energy_record, scaled
from archcli.wings.serving.predict.answers.question import PredictAnswer, PredictQuestion
from archcli.wings.serving.predict.constants import Origin
from archcli.wings.serving.predict.prediction import Prediction
from archcli.wings.serving.recorded.operations import JOIN

Record = dict[str, Any]
FIGURES = {"floor": "limit", "expected": "expected", "low": "low", "high": "high"}
"""JSON's names of the figures, and their headings: the floor of a time is the ceiling of a rate."""
DAY, KILO = 86400.0, 1e3


def kind_of_figures(totals: Mapping[str, Any]) -> str:
    """The figure to show where there is room for one: the expected one, or the floor."""
    return "floor" if totals["time_s"]["expected"] is None else "expected"


def device_record(question: PredictQuestion, origin: Origin | None) -> Record:
    """The device, its constants for this pass, their held-out error, and their source."""
    return {
        "name": question.device.name,
        "constants": _constants(question) if origin else None,
        "held_out_error": origin and origin.error,
        "source": origin and origin.source,
    }


def _constants(question: PredictQuestion) -> Record:
    """The constants by group; of matrix products, attention and training those of the dtype."""
    dtype, efficiency = question.multiplied, question.timing.clock.efficiency
    constants: Record = {}
    for group, entries in efficiency.groups.items():
        known = {name: dict(entry) for name, entry in entries.items()}
        # groups by kind of kernel or by number of ranks name no dtype, and keep all entries
        of_dtype = {name: entry for name, entry in known.items() if name == dtype}
        constants[group] = of_dtype or known
    if question.phase != "train":
        constants.pop("training", None)
    return constants


def training_record(question: PredictQuestion, prediction: Prediction) -> Record:
    """A whole training: steps, days, hours of devices, cost, and the energy at their power limit."""
    tokens, price, watts = question.options.tokens, question.options.price_per_hour, question.device.tdp_w
    steps = (tokens or 0) / prediction.tokens
    seconds = scaled(prediction.seconds.record(), steps)
    hours = scaled(seconds, prediction.devices / HOUR)
    return {
        "tokens": tokens,
        "steps": steps,
        "days": scaled(seconds, 1 / DAY),
        "device_hours": hours,
        "cost": None if price is None else scaled(hours, price),
        "energy_kwh_at_most": None if watts is None else scaled(hours, watts / KILO),
    }


def totals_of(question: PredictQuestion, answer: PredictAnswer) -> Record:
    """Totals of every prediction; with a price its costs, with training tokens the whole training."""
    prediction = answer.prediction
    rates = prediction.tokens_per_s
    totals: Record = {
        "time_s": prediction.seconds.record(),
        "tokens": prediction.tokens,
        "tokens_per_s": rates,
        "tokens_per_s_per_device": scaled(rates, 1 / prediction.devices),
        "mfu": prediction.mfu,
        "hfu": prediction.hfu,
        "bound_by": prediction.bound_by,
        "by_class": prediction.by_class(),
        "bubble_s": prediction.bubble_s,
        "devices": prediction.devices,
        "device": device_record(question, prediction.origin),
        "communication": [collective.record() for collective in prediction.communication],
    }
    if answer.served is not None:
        totals["first_token_s"] = answer.served.first_token.record()
        totals["per_token_s"] = answer.served.per_token.record()
        totals["at_once"] = answer.served.at_once
    elif question.caches:
        name = "first_token_s" if question.phase == "prefill" else "per_token_s"
        totals[name] = prediction.seconds.record()
    if question.draft is not None:
        totals["tokens_per_round"] = question.draft.per_round
    if question.options.price_per_hour is not None:
        totals["cost"] = cost_record(question, answer, question.options.price_per_hour)
    totals["energy"] = energy_record(question, answer)
    if question.options.tokens is not None:
        totals["training"] = training_record(question, prediction)
    return totals


ROWS, MOST_JOINED = 8, 3
TIMES = {
    "train": "time of a step",
    "forward": "time of the forward",
    "prefill": "time of the prefill",
    "decode": "time of a token of each sequence",
    "serve": "time of all",
}


def figures_table(title: str, question: PredictQuestion, totals: Record) -> Table:
    """Times and rates, each as limit, expected and range; without constants the limit alone."""
    known = [name for name, value in totals["time_s"].items() if value is not None]
    minor = {"floor"} if len(known) > 1 else set[str]()
    columns = [Column("what", "")]
    columns += [Column(name, FIGURES[name], unit_key="unit", minor=name in minor) for name in known]
    return Table(title, columns, list(_figures(question, totals)))


def _figures(question: PredictQuestion, totals: Record) -> Iterator[Record]:
    yield _line(TIMES[question.phase], "seconds", totals["time_s"])
    if question.phase == "serve":
        yield _line("time to first token", "seconds", totals["first_token_s"])
        yield _line("time per token after it", "seconds", totals["per_token_s"])
    yield _line("tokens/s", "number", _rounded(totals["tokens_per_s"]))
    if totals["devices"] > 1:
        yield _line("tokens/s of a device", "number", _rounded(totals["tokens_per_s_per_device"]))
    # none where no peak is stated
    if totals["mfu"]:
        yield _line("MFU", "share", _shares(totals))
    if "cost" in totals:
        if any(totals["cost"]["tokens_per_unit"].values()):
            line = _rounded(totals["cost"]["tokens_per_unit"])
            yield _line("tokens per unit of currency", "number", line)
        yield from _million(totals["cost"])
    if totals["energy"] and ("cost" in totals or question.options.grid):
        yield from _energy(totals["energy"])
    if "training" in totals:
        training = totals["training"]
        yield _line("days in all", "number", _rounded(training["days"]))
        yield _line("device hours", "number", _rounded(training["device_hours"]))
        if training["cost"]:
            yield _line("cost", "number", _rounded(training["cost"]))
        if training["energy_kwh_at_most"]:
            yield _line("kWh, at most (TDP)", "number", _rounded(training["energy_kwh_at_most"]))


def _million(cost: Record) -> Iterator[Record]:
    """The price of a million tokens, in serving of prompts and of generated ones apart."""
    apart = (cost["per_million_prompt_tokens"], cost["per_million_generated_tokens"])
    if not all(apart):
        yield _line("price of a million tokens", "bits", cost["per_million_tokens"])
        return
    yield _line("price of a million prompt tokens", "bits", apart[0])
    yield _line("price of a million generated tokens", "bits", apart[1])


def _energy(energy: Record) -> Iterator[Record]:
    yield _line("watts", "number", _rounded({"floor": None, **energy["watts"]}))
    yield _line("joules of a token", "bits", energy["joules_per_token"])
    if "co2_g_per_million_tokens" in energy:
        yield _line("grams of CO2, a million tokens", "number", _rounded(energy["co2_g_per_million_tokens"]))


def _line(what: str, unit: Unit, figures: Mapping[str, float | None]) -> Record:
    return {"what": what, "unit": unit, **figures}


def _shares(totals: Record) -> Record:
    """MFU at each of the times."""
    times = totals["time_s"]
    at = totals["mfu"] * (times["floor"] if times["expected"] is None else times["expected"])
    shares = {name: None if seconds is None else at / seconds for name, seconds in times.items()}
    # the shortest time has the highest MFU
    return {**shares, "low": shares["high"], "high": shares["low"]}


def _rounded(figures: Mapping[str, float | None]) -> Record:
    """Figures to four digits, whole ones where they are large: more would claim what nobody knows."""
    return {name: None if value is None else to_four(value) for name, value in figures.items()}


def to_four(value: float) -> float | int:
    """Four digits of a figure; a whole number from 1,000 on."""
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded >= 1000 else rounded  # noqa: PLR2004


def limit_table(limits: Sequence[Record], kind: str) -> Table:
    """The seconds by purpose."""
    columns = (Column("what", "what"), Column("time_s", "time", "seconds"), Column("share", "share", "share"))
    return Table(f"what takes the time ({FIGURES[kind]})", columns, limits)


def shown_path(path: str) -> str:
    """A path with layers folded: `layers.*.ffn.gate_proj + up_proj` for a kernel of several operations."""
    first, *others = path.split(JOIN)
    parent = first.rpartition(".")[0] + "."
    if len(others) > MOST_JOINED:
        others = ["…", others[-1]]
    return JOIN.join((folded_path(first), *(folded_path(path.removeprefix(parent)) for path in others)))


def row_table(rows: Sequence[Record], total: float, kind: str) -> Table:
    """The rows that take most, those of all layers together."""
    folded: dict[tuple[str, str], Record] = {}
    for row in rows:
        key = (shown_path(row["path"]), row["stage"])
        record = folded.setdefault(
            key, {"path": key[0], "stage": key[1], "flops": 0, "bytes": 0, "time_s": 0.0}
        )
        longest = record.setdefault("longest", row["time_s"])
        # layers of one path may be bound by different things: the longest of them decides
        if row["time_s"] >= longest:
            record |= {"longest": row["time_s"], "bound_by": row["bound_by"]}
        for name in ("flops", "bytes", "time_s"):
            record[name] += row[name]
    records = sorted(folded.values(), key=lambda record: -record["time_s"])
    shown = [{**record, "share": record["time_s"] / total} for record in records[:ROWS]]
    stages = len({record["stage"] for record in records}) > 1
    columns = (
        Column("path", "path"),
        *((Column("stage", "in"),) * stages),
        Column("time_s", "time", "seconds"),
        Column("share", "share", "share"),
        Column("bound_by", "bound by"),
    )
    hidden = len(records) - ROWS
    more = f"; {hidden} more in --json" if hidden > 0 else ""
    return Table(f"rows that take most time ({FIGURES[kind]}){more}", columns, shown)
