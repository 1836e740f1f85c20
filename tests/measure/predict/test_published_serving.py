"""Published figures of engines that no fit has seen: throughput, first tokens, tokens of GA102 cards."""

import csv
import sys
from pathlib import Path
from statistics import mean

import pytest

import archcli

ROOT = Path(__file__).parents[3]
NAMES = {"output_tokens_per_s_per_gpu": "tokens a second", "first_token_latency_ms": "time to first token"}


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import predict_serving
    finally:
        sys.path.pop(0)
    return predict_serving


@pytest.fixture(scope="module")
def pairs(script):
    """By metric and device, (floor, expected, low, high) of each row, and what was measured."""
    return script.evaluated()


@pytest.mark.long
def test_throughput_is_within_twelve_percent(pairs):
    known = pairs["output_tokens_per_s_per_gpu", "all"]
    assert len(known) == 20
    assert sum(abs(figures[1] / measured - 1) for figures, measured in known) / 20 <= 0.12
    assert sum(low <= measured <= high for (_, _, low, high), measured in known) >= 0.8 * 20
    assert all(measured < floor for (floor, *_), measured in known)


@pytest.mark.long
def test_four_of_five_first_tokens_lie_in_the_range_above_the_floor(pairs):
    known = pairs["first_token_latency_ms", "all"]
    assert len(known) == 13
    assert sum(low <= measured <= high for (_, _, low, high), measured in known) >= 0.8 * 13
    assert all(floor < measured for (floor, *_), measured in known)


@pytest.mark.long
def test_the_table_of_the_page(script, pairs):
    page = (ROOT / "docs" / "predict.md").read_text()
    assert len(pairs) == 2 * (3 + 1)
    for (metric, device), known in pairs.items():
        cells = (NAMES[metric], device, len(known), *script.summary(known).values())
        assert f"| {' | '.join(map(str, cells))} |" in page


def test_tokens_of_cards_that_borrow_from_an_a40_lie_in_the_range():
    """vLLM on an RTX A6000, an A40 and RTX 3090, in the order of the page's table."""
    with (ROOT / "benchmarks" / "measured" / "ga102_decode.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page, errors = (ROOT / "docs" / "predict.md").read_text(), []
    for row in rows:
        sizes = {"batch_size": int(row["batch_size"]), "past": int(row["past"])}
        asked = {**sizes, "dtype": row["dtype"] or None}
        time = archcli.predict(row["model"], row["device"], phase="decode", **asked).totals["time_s"]
        measured, ends = float(row["ms_per_token"]), {name: 1e3 * time[name] for name in time}
        assert ends["floor"] < measured, row
        assert ends["low"] <= measured <= ends["high"], row
        errors.append(abs(ends["expected"] / measured - 1))
        told = [f"{ends[name]:.3g}" for name in ("floor", "expected", "low", "high")]
        cells = (f"`{row['model']}` {row['dtype']}".rstrip(), f"`{row['device']}`", row["batch_size"])
        assert f"| {' | '.join([*cells, f'{measured:.3g}', *told])} |" in page
    assert f"{len(rows)} published tokens of GA102 cards, {mean(errors):.1%} off" in " ".join(page.split())
