"""What tokens cost: money at an hourly price, joules by a power model, and grams of CO2 of a grid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from archcli.errors import ArchError, quote
from archcli.wings.serving.predict import power
from archcli.wings.serving.predict.answers.question import PredictAnswer, PredictQuestion

Record = dict[str, Any]
Figures = Mapping[str, float | None]
HOUR, MILLION, JOULES_PER_KWH = 3600.0, 1e6, 3.6e6
TINY = 1e-12
"""A lower price of a second counts as none."""
GRID = re.compile(r"(\d+(?:\.\d+)?)\s*(k?g)?(?:\s*(?:CO2)?\s*/\s*kWh)?", re.IGNORECASE)


def scaled(record: Figures, factor: float) -> Record:
    """Each figure times a factor."""
    return {name: None if value is None else value * factor for name, value in record.items()}


def cost_record(question: PredictQuestion, answer: PredictAnswer, price_per_hour: float) -> Record:
    """The cost of tokens at a price for an hour of a device: tokens per unit, and the price of a million.

    Of serving those of the prompts and those generated apart, by the seconds that each takes.
    """
    prediction = answer.prediction
    per_second = price_per_hour * prediction.devices / HOUR
    rates = prediction.tokens_per_s
    million = {name: None if rate is None else MILLION * per_second / rate for name, rate in rates.items()}
    # the lowest rate has the highest price
    million["low"], million["high"] = million["high"], million["low"]
    prompt, generated = _tokens_apart(question, answer)
    return {
        "price_per_hour": price_per_hour,
        # a device that costs nothing makes no number of tokens for a unit
        "tokens_per_unit": scaled(rates, 1 / per_second) if per_second > TINY else dict.fromkeys(rates),
        "per_million_tokens": million,
        "per_million_prompt_tokens": None if prompt is None else scaled(million, prompt),
        "per_million_generated_tokens": None if generated is None else scaled(million, generated),
        "price": question.priced,
    }


def _tokens_apart(question: PredictQuestion, answer: PredictAnswer) -> tuple[float | None, float | None]:
    """A token of a prompt, and a generated one, in tokens of the prediction; None where there are none."""
    if question.phase != "serve":
        return {"prefill": (1.0, None), "decode": (None, 1.0)}.get(question.phase, (None, None))
    rows = answer.prediction.rows
    all_s = sum(row.seconds.expected for row in rows)
    part = sum(row.seconds.expected for row in rows if row.stage == "prefill") / all_s
    prompts = int(question.settings.batch_size) * int(question.settings.tokens(question.model))
    return part * answer.prediction.tokens / prompts, 1 - part


def energy_record(question: PredictQuestion, answer: PredictAnswer) -> Record | None:
    """Watts, joules of a token, and with a grid grams of CO2; None where none were measured of the like."""
    prediction = answer.prediction
    limit_w = None if question.phase == "train" else question.device.limit_w
    drawn = power.watts(prediction, limit_w, question.plan, question.settings)
    if drawn is None:
        return None
    joules = power.joules_per_token(drawn, prediction.tokens_per_s)
    record: Record = {"watts": drawn._asdict(), "joules_per_token": joules, "source": power.SOURCE}
    if question.options.grid is not None:
        grams = grams_of(question.options.grid)
        record["grid_g_per_kwh"] = grams
        record["co2_g_per_million_tokens"] = scaled(joules, MILLION / JOULES_PER_KWH * grams)
    return record


def grams_of(grid: str) -> float:
    """Grams of a kWh: 400 of 400g/kWh, 0.4kg/kWh or 400. Raises ArchError for another text."""
    match = GRID.fullmatch(grid.strip())
    if match is None:
        raise ArchError(f"--grid {quote(grid)} is no carbon intensity", "grams of CO2 of a kWh: 400g/kWh")
    return float(match[1]) * (1000 if (match[2] or "").lower() == "kg" else 1)


def cost_notes(question: PredictQuestion, totals: Mapping[str, Any]) -> Iterator[str]:
    """Whose price it is and of which day, and what the watts are by."""
    if question.priced is not None:
        yield f"Price: {question.priced['text']}."
    if totals["energy"] is None and question.options.grid is not None:
        doing = "training" if question.phase == "train" else question.device.name
        yield f"Watts of {doing} are not known: no power limit is stated, or none were measured."
    elif totals["energy"] and ("cost" in totals or question.options.grid is not None):
        yield f"Watts: {totals['energy']['source']}."
