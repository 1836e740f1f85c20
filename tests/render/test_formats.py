"""Every format of one small report."""

import csv
import html
import io
import json
import re
from xml.etree import ElementTree as ET

import pytest

from archcli.measure.report import Column, Report, Table, facts
from archcli.render import rendered

COLUMNS = (Column("path", "path"), Column("params", "params", "count"), Column("share", "share", "share"))
ROWS = [
    {"path": "a|b.*", "params": 12_345_678, "share": 0.75},
    {"path": "[red]c", "params": 7, "share": 0.25, "shape": [2, 3]},
]
REPORT = Report(
    command="params",
    model={"name": "evil [bold]\x1b[31m", "source": "x.yaml"},
    inputs={"batch_size": 1, "past": None, "set": ["d_ff=8", "a=1"]},
    convention="Counted [so].",
    totals={"params": 12_345_685},
    rows=ROWS,
    tables=(
        Table("By path", COLUMNS, ROWS, {"path": "total", "params": 12_345_685, "share": 1.0}),
        facts("Facts", ("size", 5 << 30, "bytes")),
    ),
    notes=("note <b>well</b>",),
)


def test_plain_text_is_aligned_and_whole():
    assert rendered(REPORT, "plain") == (
        "evil [bold]\\x1b[31m: params, batch size 1, set d_ff=8 a=1\n\n"
        "By path\n"
        "path        params          share\n"
        "a|b.*   12,345,678  12.3M   75.0%\n"
        "[red]c           7          25.0%\n"
        "total   12,345,685  12.3M  100.0%\n\n"
        "Facts\n"
        "size  5,368,709,120  5.00 GiB\n\n"
        "Counted [so].\n"
        "note: note <b>well</b>\n"
    )


@pytest.mark.parametrize("width", [40, 100])
def test_svg_is_a_terminal_that_shows_the_table(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    picture, table = rendered(REPORT, "svg"), rendered(REPORT, "table")
    ET.fromstring(picture)  # noqa: S314
    spans = re.findall(r'<text class="archcli-r\d+"[^>]*>([^<]*)</text>', picture)
    assert "".join(html.unescape("".join(spans)).split()) == "".join(table.split())
    assert "evil\xa0[bold]\\x1b[31m" in html.unescape(picture)


def test_svg_asks_nothing_of_other_sites():
    picture = rendered(REPORT, "svg").replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "//" not in picture
    assert "@import" not in picture


def test_markdown_escapes_what_it_would_read():
    text = rendered(REPORT, "md")
    assert "| a\\|b.\\* | 12,345,678 | 12.3M | 75.0% |" in text
    assert "| **total** | **12,345,685** | **12.3M** | **100.0%** |" in text
    assert "note: note \\<b\\>well\\</b\\>" in text
    widths = {
        line.replace("\\|", "").count("|") for line in text.splitlines() if "12.3M" in line or "---:" in line
    }
    assert widths == {5, 4}


def test_json_has_the_fixed_names_and_exact_numbers():
    document = json.loads(rendered(REPORT, "json"))
    assert list(document) == [
        "schema_version",
        "command",
        "model",
        "inputs",
        "convention",
        "totals",
        "rows",
        "notes",
    ]
    assert document["schema_version"] == 1
    assert document["model"] == dict(REPORT.model)
    assert document["totals"] == {"params": 12_345_685}
    assert rendered(REPORT, "json").isascii()


def test_json_does_not_round():
    big = Report("params", {}, {}, "", {"params": 10**30 + 1}, [])
    assert str(10**30 + 1) in rendered(big, "json")


def test_csv_has_the_rows_alone():
    lines = list(csv.reader(io.StringIO(rendered(REPORT, "csv"))))
    assert lines == [
        ["path", "params", "share", "shape"],
        ["a|b.*", "12345678", "0.75", ""],
        ["[red]c", "7", "0.25", "[2, 3]"],
    ]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_terminal_table_keeps_to_its_width_and_reads_no_markup(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    text = rendered(REPORT, "table")
    assert max(map(len, text.splitlines())) <= width
    whole = "".join(text.split())
    assert "[red]c" in whole
    assert "evil[bold]\\x1b[31m" in whole
    assert "\x1b" not in text


def test_a_narrow_table_drops_the_long_figures_then_lists(monkeypatch):
    shown = {}
    for width in (40, 30, 16):
        monkeypatch.setenv("COLUMNS", str(width))
        shown[width] = rendered(REPORT, "table")
    assert "12,345,678  12.3M   75.0%" in shown[40]
    assert "12,345,678" not in shown[30]
    assert "a|b.*    12.3M   75.0%" in shown[30]
    assert "a|b.*\n  params" in shown[16]


def test_a_narrow_table_drops_its_minor_columns_before_it_lists(monkeypatch):
    columns = (*COLUMNS[:2], Column("share", "share", "share", minor=True))
    report = Report("params", {}, {}, "", {}, ROWS, (Table("", columns, ROWS),))
    shown = {}
    for width in (40, 24, 18, 14):
        monkeypatch.setenv("COLUMNS", str(width))
        shown[width] = rendered(report, "table")
    assert "12,345,678  12.3M  75.0%" in shown[40]
    assert "12.3M  75.0%" in shown[24]
    assert "12.3M\n" in shown[18]
    assert "75.0%" not in shown[18]
    assert "a|b.*\n  params" in shown[14]
    assert "  share 75.0%" in shown[14]


def test_without_a_terminal_a_table_is_as_wide_as_it_needs(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    long = Report("show", {}, {}, "", {}, [], (Table("", (Column("a", "a"),), [{"a": "x" * 500}]),))
    assert "x" * 500 in rendered(long, "table")
