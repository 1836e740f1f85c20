"""The report of a watched program on standard error: as wide as the terminal, plain elsewhere."""

import io
import os
import sys

import pytest

from archcli.render import on_stderr, screen
from archcli.wings.running.profile.program.report import program_report
from archcli.wings.running.recording.program import OPTIMIZER, PlacedTime, ProgramRecording

PLACED = (
    PlacedTime("transformer.layers.0.attention.query", "forward", "addmm", "contraction", 0.5, 2),
    PlacedTime(OPTIMIZER, "optimizer", "mul", "elementwise", 0.4, 400),
)
FULLER = "-o FILE.txt holds all"


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True

    def fileno(self):
        return 2


@pytest.fixture
def report():
    recording = ProgramRecording(20, (1.0,), (1.0,), PLACED, optimizers=("AdamW",))
    return program_report(recording, ["python", "train.py"], {}, {})


@pytest.fixture
def on_terminal(monkeypatch):
    """Standard error as a terminal of a width and an encoding."""

    def of(width, encoding="utf-8"):
        monkeypatch.delenv("COLUMNS", raising=False)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(sys, "stderr", Terminal(io.BytesIO(), encoding=encoding))
        size = os.terminal_size((width, 24))
        monkeypatch.setattr(screen.shutil, "get_terminal_size", lambda *_, **__: size)

    return of


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_line_fits(report, on_terminal, width):
    on_terminal(width)
    drawn = on_stderr(report, FULLER)
    lines = [
        line.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", "")
        for line in drawn.split("\n")
    ]
    assert max(map(len, lines)) <= width
    assert "What is unusual, and what to try" in lines
    assert ("holds all" in drawn) == (width < 120)


def test_it_is_plain_elsewhere_and_without_rich(report, on_terminal, monkeypatch):
    plain = f"{report:plain}\n"
    assert on_stderr(report, FULLER) == plain
    on_terminal(80, "ascii")
    assert on_stderr(report, FULLER) == plain
    on_terminal(80)
    assert on_stderr(report, FULLER) != plain
    monkeypatch.setattr("archcli.render.find_spec", lambda _: None)
    assert on_stderr(report, FULLER) == plain


def test_no_bar_is_drawn_without_rich(on_terminal, monkeypatch):
    on_terminal(80)
    monkeypatch.setattr(screen, "find_spec", lambda _: None)
    with screen.progress("measuring") as tick:
        tick("a product", 0, 1)
