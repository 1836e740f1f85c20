"""Problems as they are drawn for people."""

from pathlib import Path

import pytest

from archcli.errors import ArchError, Mark, Problem
from archcli.load.source import load_text
from archcli.render.findings import explain
from table import every_row

ODD = Mark("my.yaml", 3, 5, "a: \tb", 1)

DRAWN = {
    "plain": (
        Problem("bad", "mend it", Mark("my.yaml", 3, 4, "a: bcd", 3)),
        "my.yaml:3:4: error: bad\n    a: bcd\n       ^^^\n  = help: mend it",
    ),
    "no-hint": (
        Problem("bad", "", Mark("my.yaml", 3, 4, "a: bcd", 3)),
        "my.yaml:3:4: error: bad\n    a: bcd\n       ^^^",
    ),
    "no-place": (Problem("bad", "mend it"), "error: bad\n  = help: mend it"),
    "path": (Problem("bad", path="my.yaml"), "my.yaml: error: bad"),
    "set": (
        Problem("bad", "", Mark("--set", 1, 11, "--set a.b=c", 1)),
        "--set: error: bad\n    --set a.b=c\n              ^",
    ),
    "tab": (
        Problem("bad", "", Mark("f", 1, 5, "a: \tb", 1)),
        "f:1:5: error: bad\n    a:     b\n           ^",
    ),
    "wide": (
        Problem("bad", "", Mark("f", 1, 6, "模型: bc", 2)),
        "f:1:6: error: bad\n    模型: bc\n           ^",
    ),
    "wide-itself": (
        Problem("bad", "", Mark("f", 1, 4, "a: 模型", 2)),
        "f:1:4: error: bad\n    a: 模型\n       ^^^^",
    ),
    "control": (
        Problem("bad \x1b", "no \x07", Mark("f\n", 1, 2, "\x1ba", 1)),
        "f\\n:1:2: error: bad \\x1b\n    \\x1ba\n        ^\n  = help: no \\x07",
    ),
    "past-the-end": (Problem("bad", "", Mark("f", 1, 3, "a:", 1)), "f:1:3: error: bad\n    a:\n      ^"),
    "empty-line": (Problem("bad", "", Mark("f", 1, 1, "", 1)), "f:1:1: error: bad"),
    "long": (
        Problem("bad", "", Mark("f", 1, 101, 100 * "a" + "bc" + 100 * "d", 2)),
        f"f:1:101: error: bad\n    …{40 * 'a'}bc{58 * 'd'}…\n     {40 * ' '}^^",
    ),
    "long-caret": (
        Problem("bad", "", Mark("f", 1, 1, 300 * "a", 300)),
        f"f:1:1: error: bad\n    {100 * 'a'}…\n    {100 * '^'}",
    ),
}


@every_row(("problem", "drawn"), DRAWN.values(), ids=DRAWN)
def test_a_problem_is_drawn(problem, drawn):
    assert explain(ArchError(problem)) == drawn


def test_all_problems_are_drawn_in_order():
    tiny = (Path(__file__).parents[1] / "load" / "tiny.yaml").read_text()
    text = tiny.replace("d_ff: 128", "d_ff: 128.0").replace("n_heads: 8", "n_heads: 0")
    with pytest.raises(ArchError) as caught:
        load_text(text, "my.yaml")
    assert explain(caught.value) == (
        "my.yaml:14:18: error: n_heads must be a whole number above 0, not 0\n"
        "            n_heads: 0\n"
        "                     ^\n"
        "my.yaml:18:48: error: d_ff must be a whole number above 0, not 128.0\n"
        "          ffn: {kind: glu, activation: silu, d_ff: 128.0}\n"
        "                                                   ^^^^^\n"
        "  = help: write 128"
    )


def test_problems_in_one_place_draw_its_line_once():
    place = Mark("my.yaml", 3, 4, "a: bcd", 3)
    problems = [Problem("missing key b", mark=place), Problem("missing key c", mark=place)]
    assert explain(ArchError(problems)) == (
        "my.yaml:3:4: error: missing key b\n    a: bcd\n       ^^^\nmy.yaml:3:4: error: missing key c"
    )
