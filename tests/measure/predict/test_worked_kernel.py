"""The kernel that docs/predict.md works by hand: its arithmetic, and archcli's figures."""

from pathlib import Path

import pytest

import archcli
from archcli.wings.serving.devices.datasheet import load_datasheet
from table import every_row
from worked import result_of, worked_lines

LINES = worked_lines(Path(__file__).parents[3] / "docs" / "predict.md")
SIX_DIGITS = 1e-5


def line(start):
    """The figure of a line."""
    return result_of(LINES, start)


@pytest.fixture(scope="module")
def report():
    return archcli.predict("llama-3.1-70b", "4xh100-sxm", engine="none")


@pytest.fixture(scope="module")
def kernel(report):
    [row] = [row for row in report.rows if row["path"] == "layers.0.ffn.down_proj"]
    return row


@every_row("worked", LINES, ids=[line.what for line in LINES])
def test_the_arithmetic_of_the_page_holds(worked):
    assert worked.value == pytest.approx(worked.result, rel=SIX_DIGITS)


def test_the_page_has_all_three_tables():
    assert len(LINES) == 12 + 3 + 2


def test_flops_bytes_and_the_floor(kernel):
    assert kernel["times"] == 80
    assert kernel["flops"] == 80 * line("FLOPs")
    assert kernel["bytes"] == 80 * line("bytes: the vector")
    floor = 80e-6 * line("µs to read and write at the bandwidth")
    assert kernel["floor_s"] == pytest.approx(floor, rel=SIX_DIGITS)


def test_the_expected_time_and_what_binds(kernel):
    assert kernel["time_s"] == pytest.approx(80e-6 * line("µs in all"), rel=SIX_DIGITS)
    assert kernel["time_s"] == pytest.approx(1e-3 * line("ms in 80 layers"), rel=SIX_DIGITS)
    assert kernel["bound_by"] == "memory"


def test_the_range_is_that_of_the_devices_matrix_products(report):
    stated = load_datasheet("h100-sxm").efficiency["matrix_products"]["bf16"]
    expected = line("µs in all")
    assert line("µs at the low end") == pytest.approx(stated["low"] * expected, rel=SIX_DIGITS)
    assert line("µs at the high end") == pytest.approx(stated["high"] * expected, rel=SIX_DIGITS)


def test_the_all_reduces(report):
    [sent] = report.totals["communication"]
    assert sent["bytes"] == 161 * line("bytes that each sends")
    assert sent["time_s"] == pytest.approx(1e-3 * line("ms of the token"), rel=SIX_DIGITS)


def test_the_notes(report):
    points = report.totals["break_even"]
    assert points["batch_size"]["expected"] == pytest.approx(line("batch size from which"), rel=SIX_DIGITS)
    assert points["context"] == line("tokens from which")
