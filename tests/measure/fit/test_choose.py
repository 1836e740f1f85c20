"""`archcli choose`: its cells equal fit, memory and predict asked singly; its order and front brute force."""

from itertools import pairwise
from math import inf
from random import Random

import pytest

import archcli

MODELS = ("llama-3.1-8b", "qwen2.5-14b", "gpt-oss-20b", "mixtral-8x7b", "gemma-2-9b", "llama-3.1-70b")
SOME = "rtx-3060,rtx-3090,rtx-4090,rtx-4060-ti,l40s,a100-sxm-80gb,h100-sxm,rx-7900-xtx,m3-max,v100-sxm-32gb"
CARDS = """title: a dealer
currency: EUR
where: a shop
date: 2026-11-01
prices:
  - {device: rtx-3090, price: 700, kind: used}
  - {device: rtx-4090, price: 2100, kind: new}
  - {device: rtx-3060, price: 280, kind: new}
"""


@pytest.fixture(scope="module")
def cells():
    """Every cell of some models, by the options of the question."""
    return {
        (name, users): archcli.choose(name, devices=SOME, users=users, every=True).rows
        for name, users in (("llama-3.1-8b", 1), ("gpt-oss-20b", 4))
    }


def named(row):
    return row["device"] if row["count"] == 1 else f"{row['count']}x{row['device']}"


def equals_fit(name, users, row):
    """Whether fit, memory and predict, asked about a row alone, say the same."""
    form = None if row["format"].startswith("published") else row["format"]
    shared = {"dtype": form, "batch_size": users, "engine": row["engine"]}
    single = archcli.fit(name, named(row), **shared).totals
    for key in ("format", "context", "peak_bytes", "tokens_per_s", "verdict"):
        assert single[key] == row[key], (name, named(row), row["format"], key)
    memory = archcli.memory(name, phase="serve", device=named(row), seq_len=row["context"], **shared)
    assert memory.totals["peak_bytes"] == row["peak_bytes"]
    tokens = min(2048, row["context"])
    predicted = archcli.predict(name, named(row), phase="decode", seq_len=tokens, **shared)
    if predicted.inputs["plan"] == single["plan"]:
        assert predicted.totals["tokens_per_s"] == row["tokens_per_s"]


def test_cells_equal_the_commands(cells):
    draw = Random(0)
    for (name, users), rows in cells.items():
        for row in draw.sample([row for row in rows if row["fits"]], 6):
            equals_fit(name, users, row)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_many_cells_equal_the_commands(name):
    users = 1 + MODELS.index(name) % 2
    rows = [row for row in archcli.choose(name, devices=SOME, users=users, every=True).rows if row["fits"]]
    for row in Random(name).sample(rows, min(170, len(rows))):
        equals_fit(name, users, row)


def costs(row):
    price = row["price"]["amount"] if row["price"] else inf
    return price, -(row["tokens_per_s"]["expected"] or 0), row["watts"] or inf


def beats(row, further):
    mine, theirs = costs(row), costs(further)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))


def questions(draw, n):
    """Random conditions, each of them at times left out."""
    for _ in range(n):
        options = {
            "speed": draw.choice((None, 10, 30, 60, 120)),
            "context": draw.choice((None, 4096, 16384)),
            "sort": draw.choice(("price", "speed", "power")),
        }
        options[draw.choice(("budget", "per_hour"))] = draw.choice((None, 2, 600, 2500, 9000))
        yield options


@pytest.mark.parametrize("options", [*questions(Random(1), 4)])
def test_front_and_order_equal_brute_force(options):
    check_front(options)


@pytest.mark.long
@pytest.mark.parametrize("options", [*questions(Random(2), 30)])
def test_more_fronts_equal_brute_force(options):
    check_front(options)


def check_front(options):
    report = archcli.choose("llama-3.1-8b", devices=SOME, **options)
    # a cell for each device and count: with every cell, those of the best formats stand among them
    every = archcli.choose("llama-3.1-8b", devices=SOME, every=True, **options).rows
    best = {}
    for row in every:
        if row["meets"]:
            best.setdefault((row["device"], row["count"]), []).append(row)
    assert report.totals["meeting"] == len(best)
    kept = report.rows
    for row in kept:
        assert row in best[row["device"], row["count"]]
        # the largest format that is fast enough
        first = max(best[row["device"], row["count"]], key=lambda it: (it["format"] == row["format"]))
        assert first["format"] == row["format"]
    assert not any(beats(a, b) for a in kept for b in kept)
    first = {"price": 0, "speed": 1, "power": 2}[options["sort"]]
    assert all(costs(a)[first] <= costs(b)[first] for a, b in pairwise(kept))
    if kept:
        assert (report.totals["device"], report.totals["count"]) == (kept[0]["device"], kept[0]["count"])


def test_a_larger_budget_is_never_slower():
    rates = []
    for budget in (400, 800, 1600, 3200, 6400):
        rows = archcli.choose("llama-3.1-8b", devices="rtx-*0", budget=budget, sort="speed").rows
        rates.append(rows[0]["tokens_per_s"]["expected"] if rows else 0)
    assert rates == sorted(rates)
    assert rates[-1] > rates[0]


def test_a_higher_speed_is_never_cheaper():
    prices = []
    for speed in (20, 60, 100, 200):
        rows = archcli.choose("llama-3.1-8b", devices="rtx-*0", speed=speed).rows
        prices.append(rows[0]["price"]["amount"] if rows else inf)
    assert prices == sorted(prices)
    assert prices[-1] > prices[0]


def test_speed_is_that_of_each_user():
    rows = archcli.choose("llama-3.1-8b", devices=SOME, users=4, speed=50).rows
    assert rows
    assert all(row["tokens_per_s"]["expected"] >= 4 * 50 for row in rows)


def test_forms_below_min_bits_meet_nothing():
    every = archcli.choose("llama-3.1-70b", devices="rtx-4090", every=True).rows
    assert [row["meets"] for row in every if row["count"] == 1 and row["format"] == "iq2_xxs"] in ([], [False])
    few = archcli.choose("llama-3.1-70b", devices="rtx-4090", min_bits=2).totals
    assert (few["device"], few["count"]) == ("rtx-4090", 1)
    assert archcli.choose("llama-3.1-70b", devices="rtx-4090").totals["count"] == 2


def test_prices_of_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(CARDS)
    report = archcli.choose("llama-3.1-70b", devices="rtx-3090,rtx-4090,rtx-3060", prices=str(path))
    assert report.rows[0]["price"] == {
        "amount": 4 * 280,
        "currency": "EUR",
        "kind": "new",
        "where": "a shop",
        "date": "2026-11-01",
    }
    assert "4 x rtx-3060, €1,120 new (a shop, 2026-11-01)" in report.headline
    assert "a dealer" in report.notes[0]


def test_nothing_that_meets_the_conditions():
    report = archcli.choose("llama-3.1-70b", devices="rtx-3090,rtx-4090", speed=30, budget=1500)
    assert report.rows == []
    assert report.totals["device"] is None
    assert "loosen --budget" in report.headline
    fast = archcli.choose("llama-3.1-70b", devices="rtx-3090,rtx-4090", speed=5000)
    assert "loosen --speed" in fast.headline
    large = archcli.choose("llama-3.1-405b", devices="rtx-3060", context=131072)
    assert "None of these devices holds the model" in large.headline


def test_a_training_step_equals_memory_and_predict():
    options = {"method": "qlora", "trainer": "trl", "seq_len": 1024, "phase": "train"}
    rows = archcli.choose(
        *("qwen2.5-7b",),
        devices="rtx-4090,a100-sxm-80gb",
        phase="train",
        method="qlora",
        trainer="trl",
        context=1024,
        every=True,
    ).rows
    fitting = [row for row in rows if row["fits"]]
    assert {row["device"] for row in fitting} == {"rtx-4090", "a100-sxm-80gb"}
    for row in fitting:
        assert archcli.memory("qwen2.5-7b", device=named(row), **options).totals["peak_bytes"] == row["peak_bytes"]
        predicted = archcli.predict("qwen2.5-7b", named(row), **options).totals
        assert predicted["tokens_per_s"] == row["tokens_per_s"]


def test_a_training_within_days():
    options = {"phase": "train", "method": "lora", "context": 1024, "devices": "a100-sxm-80gb,h100-sxm"}
    report = archcli.choose("llama-3.1-8b", tokens=10**9, within="3days", **options)
    assert report.rows
    for row in report.rows:
        assert 1e9 / row["tokens_per_s"]["expected"] <= 3 * 86_400
    assert archcli.choose("llama-3.1-8b", tokens=10**12, within="1h", **options).rows == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--budget", "-4"), "--budget"),
        (("--budget", "4", "--per-hour", "4"), "--budget is to buy"),
        (("--devices", "nothing"), "no device 'nothing'"),
        (("--devices", "rtx-9*"), "--devices rtx-9* matches no device"),
        (("--within", "3days"), "--within of how many tokens"),
        (("--phase", "train", "--speed", "3"), "--speed is of --phase serve"),
        (("--method", "lora"), "--method is of --phase train"),
        (("--phase", "train", "--tokens", "1e9", "--within", "soon"), "--within soon is no time"),
        (("--prices", "nothing.yaml"), "nothing.yaml"),
        (("--users", "0"), "--users"),
    ],
)
def test_what_is_refused(cli, arguments, said):
    done = cli("choose", "gpt2", "--devices", "rtx-4090", *arguments)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""
