"""Tables on narrow terminals: text is folded at its seams, and what has no room is named."""

import subprocess

import pytest
from rich.cells import cell_len

from archcli.measure.report import Column, Report, Table
from archcli.render.screen import folded
from archcli.render.terminal import terminal

PATH = "layers.0.attention_norm.query_projection.weight"


def report(columns, records, footer=None):
    return Report("show", {}, {}, "", {}, records, (Table("", columns, records, footer),))


def drawn(monkeypatch, width, *given):
    monkeypatch.setenv("COLUMNS", str(width))
    text = terminal(report(*given))
    assert max(map(cell_len, text.splitlines())) <= width
    return text


PARAMS = (Column("path", "path"), Column("params", "parameters", "count"))
RECORDS = [{"path": PATH, "params": 8_030_261_248}, {"path": "模型.weight", "params": 12_345}]


def test_wide_enough_nothing_is_said(monkeypatch):
    text = drawn(monkeypatch, 80, PARAMS, RECORDS)
    assert PATH in text
    assert "8,030,261,248  8.03B" in text
    assert "Fitted" not in text


def test_figures_are_rounded_before_a_path_is_broken(monkeypatch):
    text = drawn(monkeypatch, 63, PARAMS, RECORDS)
    assert PATH in text
    assert "8,030,261,248" not in text
    assert "Fitted to 63 columns: figures are rounded. --format plain shows all." in " ".join(text.split())


@pytest.mark.parametrize("width", [40, 50])
def test_a_path_is_broken_after_a_sign(monkeypatch, width):
    lines = [line.split("  ")[0] for line in drawn(monkeypatch, width, PARAMS, RECORDS).splitlines()]
    pieces = lines[2 : lines.index("模型.weight")]
    assert "".join(piece.strip() for piece in pieces) == PATH
    assert all(piece.rstrip().endswith((".", "_", "weight")) for piece in pieces)


@pytest.mark.parametrize("width", range(1, 6))
def test_no_terminal_is_too_narrow(monkeypatch, width):
    text = drawn(monkeypatch, width, PARAMS, RECORDS[:1])
    assert PATH in "".join(text.split())


def test_columns_left_out_are_named(monkeypatch):
    columns = (Column("name", "model"), Column("note", "remark", minor=True), Column("n", "layers", "number"))
    records = [{"name": "a-model", "note": "x" * 60, "n": 12}]
    text = drawn(monkeypatch, 40, columns, records)
    assert "Fitted to 40 columns: columns left out: remark. --format plain shows all." in " ".join(
        text.split()
    )
    assert "xx" not in text


def test_prose_is_folded_between_words(monkeypatch):
    records = [{"rule": "FFN001", "title": "a sentence of several words that does not fit " * 2}]
    text = drawn(monkeypatch, 50, (Column("rule", "code"), Column("title", "rule")), records)
    words = {word for line in text.splitlines()[2:] for word in line.split()}
    assert words == {"FFN001", *records[0]["title"].split()}


def test_a_long_title_is_not_squeezed_into_a_small_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table = Table("A title much longer than the table below it", (Column("a", "a"),), [{"a": "b"}])
    assert "A title much longer than the table below it\n" in terminal(
        Report("x", {}, {}, "", {}, [], (table,))
    )


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_long_command_can_be_pasted(width):
    """Its lines, as a shell joins them, are the command; other text has no backslash."""
    command = (
        "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 32768 --max-num-batched-tokens 2048 "
        "--enable-expert-parallel --download-dir /data/models/of/every/kind/that/there/is/in/this/house"
    )
    text = f"note: Serve it with `{command}`, or with `archcli fit`, whatever else may be said."
    lines = folded(text, width, pasted=True)
    assert max(map(len, lines)) <= width
    before, shown, *after = "\n".join(lines).split("`")
    ran = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s ' {shown}"], capture_output=True, check=True, timeout=60
    )
    assert ran.stdout.decode().split() == command.split()
    assert "\\" not in before + "".join(after)
