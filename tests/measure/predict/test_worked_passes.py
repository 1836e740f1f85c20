"""The passes that docs/engines.md works by hand: their arithmetic, and what their commands report."""

import json
import re
import shlex
from pathlib import Path

import pytest

from table import every_row
from worked import result_of, worked_lines

PAGE = Path(__file__).parents[3] / "docs" / "engines.md"
LINES = worked_lines(PAGE)
COMMANDS = re.findall(r"^\*\*.+\*\* `archcli (predict [^`]+)`", PAGE.read_text(), flags=re.MULTILINE)
SIX_DIGITS = 1e-5
MICRO = 1e-6


def line(start):
    """The figure of a line."""
    return result_of(LINES, start)


@pytest.fixture(scope="module")
def reports(archcli):
    """What the commands of the page report: a prompt, a token, a mixture."""
    return [json.loads(archcli(*shlex.split(command), "--json").stdout) for command in COMMANDS]


def kernel(report, name):
    """The first row of a report with this name in its path, and how often it runs."""
    row = next(row for row in report["rows"] if name in row["path"])
    return row, row["times"]


@every_row("worked", LINES, ids=[f"{number} {worked.what}" for number, worked in enumerate(LINES)])
def test_the_arithmetic_of_the_page_holds(worked):
    assert worked.value == pytest.approx(worked.result, rel=SIX_DIGITS)


def test_the_page_has_all_three_passes():
    assert len(COMMANDS) == 3
    assert len(LINES) == 14 + 14 + 14


@pytest.mark.long
@every_row(
    ("number", "name", "start"),
    [
        (0, "attend", "µs of the prompt's attention"),
        (1, "attend", "µs of the token's attention"),
        (1, "down_proj", "µs of `down_proj`"),
        (2, "experts", "µs of the experts"),
    ],
    ids=["prompt", "token", "product", "mixture"],
)
def test_a_kernel_takes_what_the_report_says(reports, number, name, start):
    row, times = kernel(reports[number], name)
    assert row["time_s"] / times == pytest.approx(MICRO * line(start), rel=SIX_DIGITS)


@pytest.mark.long
def test_compute_binds_the_prompt_and_memory_the_rest(reports):
    bounds = [(0, "attend"), (1, "attend"), (1, "down_proj"), (2, "experts")]
    found = [kernel(reports[number], name)[0]["bound_by"] for number, name in bounds]
    assert found == ["compute", "memory", "memory", "memory"]


@pytest.mark.long
def test_flops_and_the_floor_of_the_prompt(reports):
    row, times = kernel(reports[0], "attend")
    assert row["flops"] == times * line("FLOPs: 4")
    floor = MICRO * line("µs to compute them at the peak")
    assert row["floor_s"] / times == pytest.approx(floor, rel=SIX_DIGITS)


@pytest.mark.long
def test_flops_and_bytes_of_the_token(reports):
    row, times = kernel(reports[1], "down_proj")
    assert row["flops"] == times * line("FLOPs of `down_proj`")
    assert row["bytes"] == times * line("bytes: 64 vectors")
    row, times = kernel(reports[1], "attend")
    # its vectors beside the cache: a query and an output of each head
    assert row["bytes"] == times * (line("bytes of keys and values") + 2 * 2 * 64 * 32 * 128)


@pytest.mark.long
def test_bytes_and_flops_of_the_mixture(reports):
    row, times = kernel(reports[2], "experts")
    assert row["flops"] == times * 2 * line("rows: pairs") * 3 * 2048 * 768
    # tokens are read and written beside the weights
    expected = 1e6 * line("MB of their weights") + 2 * 2 * 64 * 2048
    assert row["bytes"] / times == pytest.approx(expected, rel=SIX_DIGITS)


@pytest.mark.long
def test_the_passes_take_what_the_reports_say(reports):
    shown = [worked.result for worked in LINES if worked.what.startswith("ms of the pass")]
    kernels = [worked.result for worked in LINES if worked.what.startswith("ms of all kernels")]
    for report, milliseconds, sum_ in zip(reports, shown, kernels, strict=True):
        totals = report["totals"]
        assert totals["time_s"]["expected"] == pytest.approx(milliseconds / 1000, rel=SIX_DIGITS)
        assert sum(totals["by_class"].values()) == pytest.approx(sum_ / 1000, rel=SIX_DIGITS)
