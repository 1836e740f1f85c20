"""What tokens cost in `predict`: money, watts, joules and CO2, worked out in the open."""

import csv
import math
from pathlib import Path

import pytest

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.wings.serving.api.predict import PredictOptions, predict_question
from archcli.wings.serving.devices.datasheet import load_datasheet
from archcli.wings.serving.predict import power
from archcli.wings.serving.predict.answers.costs import grams_of
from table import every_row

WATTS = Path(__file__).parents[2] / "benchmarks" / "measured" / "watts.csv"
SERVED = {"phase": "serve", "batch_size": 8, "seq_len": 500, "new": 100}


def totals(*args, **options):
    return archcli.predict(*args, **options).totals


def test_tokens_of_prompts_and_generated_ones_pay_the_hour_together():
    found = totals("llama-3.1-8b", "2xh100-sxm", price_per_hour=3.0, **SERVED)
    cost, seconds = found["cost"], found["time_s"]["expected"]
    of_prompts = cost["per_million_prompt_tokens"]["expected"] * 8 * 500 / 1e6
    of_generated = cost["per_million_generated_tokens"]["expected"] * 8 * 100 / 1e6
    assert of_prompts + of_generated == pytest.approx(2 * 3.0 * seconds / 3600)
    assert 0 < of_prompts < of_generated
    assert cost["price"] is None


@every_row(
    ("phase", "key", "lacks"),
    [
        ("prefill", "per_million_prompt_tokens", "per_million_generated_tokens"),
        ("decode", "per_million_generated_tokens", "per_million_prompt_tokens"),
    ],
)
def test_a_pass_pays_for_its_own_tokens(phase, key, lacks):
    cost = totals("llama-3.1-8b", "h100-sxm", phase=phase, price_per_hour=3.6)["cost"]
    assert cost[key] == cost["per_million_tokens"]
    assert cost[lacks] is None


def test_a_price_of_a_file_says_whose_it_is(tmp_path):
    path = tmp_path / "mine.yaml"
    price = "{device: p5.48xlarge, price: 56, kind: hour, where: AWS, date: 2026-11-28}"
    path.write_text(f"currency: EUR\nprices: [{price}]\n")
    report = archcli.predict("llama-3.1-8b", "p5.48xlarge", prices=str(path))
    cost, rate = report.totals["cost"], report.totals["tokens_per_s"]["expected"]
    assert cost["price_per_hour"] == 56 / 8
    assert cost["per_million_tokens"]["expected"] == pytest.approx(1e6 * 56 / 3600 / rate)
    assert {name: cost["price"][name] for name in ("amount", "count", "currency", "where", "date")} == {
        "amount": 56,
        "count": 8,
        "currency": "EUR",
        "where": "AWS, p5.48xlarge",
        "date": "2026-11-28",
    }
    assert f"Price: €56 an hour (AWS, p5.48xlarge, 2026-11-28), of {path}." in report.notes
    assert report.headline.endswith(" EUR.")


def test_joules_are_watts_over_tokens_a_second():
    found = totals("llama-3.1-8b", "h100-sxm", grid="400g/kWh")
    energy, rate = found["energy"], found["tokens_per_s"]["expected"]
    joules, grams = energy["joules_per_token"], energy["co2_g_per_million_tokens"]
    assert joules["expected"] == pytest.approx(energy["watts"]["expected"] / rate)
    # a million tokens of J joules are J / 3.6 kWh
    assert grams["expected"] == pytest.approx(joules["expected"] / 3.6 * 400)
    assert energy["watts"]["low"] < energy["watts"]["expected"] < energy["watts"]["high"] <= 700
    assert joules["low"] < joules["expected"] < joules["high"]
    # errors of watts and of speed are independent: e^sqrt(log(w)^2 + log(s)^2)
    slow = math.hypot(
        math.log(energy["watts"]["high"] / energy["watts"]["expected"]),
        math.log(rate / found["tokens_per_s"]["low"]),
    )
    assert joules["high"] == pytest.approx(joules["expected"] * math.exp(slow))


def test_stages_that_decode_in_turn_draw_less_than_cards_that_share_all():
    asked = {"dtype": "q4_k_m", "engine": "llamacpp"}
    one = totals("llama-3.1-8b", "rtx-3090", **asked)["energy"]["watts"]["expected"]
    two = totals("llama-3.1-8b", "2xrtx-3090", **asked)["energy"]["watts"]["expected"]
    # each of the two works half of the time, and waits the other half
    waiting = power.WAITING * 350
    assert two == pytest.approx(one + waiting, rel=0.02)


def test_at_the_limit_there_are_joules_at_least():
    energy = totals("llama-3.1-8b", "mi300x", engine="vllm")["energy"]
    joules = energy["joules_per_token"]
    assert (joules["expected"], joules["low"], joules["high"]) == (None, None, None)
    assert joules["floor"] > 0


@every_row("device", ["m3-max", "ryzen-9-9950x", "rtx-3090+rtx-4090", "tpu-v4", "gaudi3"])
def test_watts_that_nobody_measured_are_not_stated(device):
    report = archcli.predict("llama-3.1-8b", device, dtype="q4_k_m", engine="llamacpp", grid="400g/kWh")
    assert report.totals["energy"] is None
    assert any(note.startswith("Watts of ") for note in report.notes)


@every_row(
    ("text", "grams"),
    [("400g/kWh", 400), ("0.4 kg/kWh", 400), ("35", 35), ("40g", 40), ("380 gCO2/kWh", 380), ("0", 0)],
)
def test_grams_of_a_kilowatt_hour(text, grams):
    assert grams_of(text) == pytest.approx(grams)


@every_row("text", ["much", "-4g/kWh", "4 g/MWh", ""])
def test_another_grid_is_refused(text):
    with pytest.raises(ArchError, match="is no carbon intensity"):
        archcli.predict("gpt2", "h100-sxm", grid=text)


def measured(**wanted):
    with WATTS.open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    return [record for record in records if all(record[name] == value for name, value in wanted.items())]


def ratio(record):
    """Measured watts over expected ones."""
    options = PredictOptions(
        model=record["model"],
        device=f"{record['count']}x{record['device']}",
        phase=record["phase"],
        batch_size=int(record["batch_size"]),
        seq_len=int(record["prompt"]),
        new=int(record["new"]),
        engine=record["engine"],
        dtype=record["dtype"] or None,
    )
    question = predict_question(given(options.model).model, options)
    prediction = question.answer().prediction
    limit = load_datasheet(record["device"]).figures["tdp_w"].value
    drawn = power.watts(prediction, limit, question.plan, question.settings)
    return float(record["watts"]) / drawn.expected


@pytest.mark.long
def test_published_watts_lie_inside_the_range():
    """A row of each device and model: at least three of four inside."""
    running = [record for record in measured(meter="nvml") if record["phase"] == "serve"]
    n_devices = len({record["device"] for record in running})
    assert f"{len(running)} published runs on {n_devices} NVIDIA GPUs" in power.SOURCE
    first = {(record["device"], record["count"], record["model"]): record for record in running}
    ratios = [ratio(record) for record in first.values()]
    inside = sum(power.LOW <= value <= power.HIGH for value in ratios)
    assert len(ratios) > 30
    assert inside >= 0.75 * len(ratios)
