"""`archcli choose`: its cells equal fit, memory and predict asked singly; its order and front brute force."""

from itertools import pairwise
from math import inf
from random import Random

import pytest

import archcli

MODELS = ("llama-3.1-8b", "gpt-oss-20b", "gemma-2-9b")
SOME = "rtx-3060,rtx-3090,rtx-4090,rtx-4060-ti,l40s,a100-sxm-80gb,h100-sxm,rx-7900-xtx,m3-max,v100-sxm-32gb"
CHEAP = "rtx-3050-8gb,rtx-3060,rtx-4070,rtx-4090,rtx-5090"
CARDS = """title: a dealer
currency: EUR
where: a shop
date: 2026-11-01
prices:
  - {device: rtx-3090, price: 700, kind: used}
  - {device: rtx-4090, price: 2100, kind: new}
  - {device: rtx-3060, price: 280, kind: new}
"""


def drawn(seed):
    return Random(seed)  # noqa: S311  # the same in every run


def named(row):
    return row["device"] if row["count"] == 1 else f"{row['count']}x{row['device']}"


def equals_fit(name, users, row):
    """Whether fit, memory and predict, asked about a row alone, say the same."""
    context = 1024 if name == "gpt2" else 8192
    form = None if row["format"].startswith("published") else row["format"]
    shared = {"dtype": form, "batch_size": users, "engine": row["engine"]}
    single = archcli.fit(name, named(row), context=context, **shared).totals
    for key in ("format", "context", "peak_bytes", "tokens_per_s", "verdict"):
        assert single[key] == row[key], (name, named(row), row["format"], key)
    memory = archcli.memory(name, phase="serve", device=named(row), seq_len=row["context"], **shared)
    assert memory.totals["peak_bytes"] == row["peak_bytes"]
    predicted = archcli.predict(name, named(row), phase="decode", seq_len=context, **shared)
    if predicted.inputs["plan"] == single["plan"]:
        assert predicted.totals["tokens_per_s"] == row["tokens_per_s"]


def test_cells_equal_the_commands():
    for name, users, device in (("gpt2", 2, "rtx-4090"), ("gpt-oss-20b", 1, "m3-max:64gb")):
        rows = archcli.choose(name, devices=device, users=users, every=True).rows
        for row in drawn(0).sample([row for row in rows if row["fits"]], 4):
            equals_fit(name, users, row)


@pytest.mark.long
def test_several_engines_are_asked_apart():
    both = archcli.choose("gpt2", devices="rtx-4090", engine="vllm,llama.cpp", every=True)
    apart = [archcli.choose("gpt2", devices="rtx-4090", engine=it, every=True) for it in ("vllm", "llamacpp")]
    assert both.totals["places"] == sum(report.totals["places"] for report in apart)
    assert {row["engine"] for row in both.rows} == {"vllm", "llamacpp"}
    assert sorted(map(str, both.rows)) == sorted(str(row) for report in apart for row in report.rows)
    for row in both.rows:
        assert f"--engine {row['engine']}" in row["command"]


@pytest.mark.long
def test_an_offload_is_that_of_fit():
    options = {"offload": "auto", "ram": "96GiB", "context": 2048}
    alone = archcli.choose("llama-3.1-70b", devices="rtx-4060", context=2048)
    assert {row["count"] for row in alone.rows} == {8}
    rows = archcli.choose("llama-3.1-70b", devices="rtx-4060", **options).rows
    row = next(row for row in rows if row["count"] == 1)
    assert row["offload"].startswith("layers:")
    single = archcli.fit("llama-3.1-70b", "rtx-4060", **options).totals
    for key in ("format", "context", "peak_bytes", "tokens_per_s", "verdict"):
        assert single[key] == row[key], key
    assert "--offload auto --ram 96GiB" in row["command"]
    assert next(row for row in rows if row["count"] == 8)["offload"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ram": "64GiB"}, "--ram is of --offload"),
        ({"offload": "auto", "engine": "vllm"}, "the engine is vllm"),
        ({"offload": "half"}, "is no offload"),
        ({"offload": "auto", "phase": "train"}, "--offload is of --phase serve"),
    ],
)
def test_an_offload_that_nothing_has_is_refused(options, message):
    with pytest.raises(archcli.ArchError, match=message):
        archcli.choose("gpt2", devices="rtx-4090", **options)


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_many_cells_equal_the_commands(name):
    users = 1 + MODELS.index(name) % 2
    rows = [row for row in archcli.choose(name, devices=SOME, users=users, every=True).rows if row["fits"]]
    for row in drawn(name).sample(rows, min(25, len(rows))):
        equals_fit(name, users, row)


def costs(row):
    price = row["price"]["amount"] if row["price"] else inf
    watts = row["watts"]["expected"] if row["watts"] else row["limit_w"]
    return price, -(row["tokens_per_s"]["expected"] or 0), watts or inf


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


@pytest.mark.parametrize("options", [*questions(drawn(1), 1)])
def test_front_and_order_equal_brute_force(options):
    check_front("gpt2", ("rtx-4090", "rtx-3060"), options)


@pytest.mark.long
@pytest.mark.parametrize("options", [*questions(drawn(2), 10)])
def test_more_fronts_equal_brute_force(options):
    check_front("llama-3.1-8b", ("rtx-3060", "rtx-4090", "l40s", "m3-max"), options)


def check_front(name, devices, options):
    """Whether the rows are what remains of the formats that fit chooses on each device and count."""
    usual = 1024 if name == "gpt2" else 8192
    shared = {"context": options["context"] or usual, "min_speed": options["speed"]}
    every = archcli.choose(name, devices=",".join(devices), every=True, **options).rows
    places = {(row["device"], row["count"]) for row in every}
    formats = {
        place: archcli.fit(name, f"{place[1]}x{place[0]}", **shared).totals["format"] for place in places
    }
    meeting = [row for row in every if row["meets"] and row["format"] == formats[row["device"], row["count"]]]
    expected = [row for row in meeting if not any(beats(it, row) for it in meeting)]
    report = archcli.choose(name, devices=",".join(devices), **options)
    assert report.totals["meeting"] == len(meeting)
    first = {"price": 0, "speed": 1, "power": 2}[options["sort"]]
    assert sorted(map(costs, report.rows)) == sorted({costs(row) for row in expected})
    assert all(row in expected for row in report.rows)
    assert all(costs(a)[first] <= costs(b)[first] for a, b in pairwise(report.rows))
    assert not expected or report.totals["format"] == report.rows[0]["format"]


@pytest.mark.long
def test_a_larger_budget_is_never_slower():
    rates = []
    for budget in (400, 800, 1600, 3200, 6400):
        rows = archcli.choose("gpt2-xl", devices=CHEAP, budget=budget, sort="speed").rows
        rates.append(rows[0]["tokens_per_s"]["expected"] if rows else 0)
    assert rates == sorted(rates)
    assert rates[-1] > rates[0]


@pytest.mark.long
def test_a_higher_speed_is_never_cheaper():
    prices = []
    for speed in (20, 60, 100, 200):
        rows = archcli.choose("gpt2-xl", devices=CHEAP, speed=speed).rows
        prices.append(rows[0]["price"]["amount"] if rows else inf)
    assert prices == sorted(prices)
    assert prices[-1] > prices[0]


def test_speed_is_that_of_each_user():
    rows = archcli.choose("llama-3.1-8b", devices="rtx-4090,h100-sxm", users=4, speed=50).rows
    assert rows
    assert all(row["tokens_per_s"]["expected"] >= 4 * 50 for row in rows)


def test_forms_below_min_bits_meet_nothing():
    # 32.8e9 weights of 3.06 bits are 12.5e9 bytes, of 4 bits 16.4e9: more than a card of 16 GB has
    assert archcli.choose("qwen2.5-32b", devices="rtx-4080").totals["count"] == 2
    few = archcli.choose("qwen2.5-32b", devices="rtx-4080", min_bits=3).totals
    assert (few["count"], few["format"]) == (1, "iq3_xxs")


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
        "count": 4,
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


@pytest.mark.long
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
        assert (
            archcli.memory("qwen2.5-7b", device=named(row), **options).totals["peak_bytes"]
            == row["peak_bytes"]
        )
        predicted = archcli.predict("qwen2.5-7b", named(row), **options).totals
        assert predicted["tokens_per_s"] == row["tokens_per_s"]


@pytest.mark.long
def test_a_training_within_days():
    options = {"phase": "train", "method": "lora", "context": 1024, "devices": "a100-sxm-80gb,h100-sxm"}
    report = archcli.choose("llama-3.1-8b", tokens=10**9, within="3days", **options)
    assert report.rows
    for row in report.rows:
        assert 1e9 / row["tokens_per_s"]["expected"] <= 3 * 86_400
    assert archcli.choose("llama-3.1-8b", tokens=10**12, within="1h", **options).rows == []
