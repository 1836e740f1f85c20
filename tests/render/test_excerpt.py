"""The line of a file and its carets, at any width and in any script."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from archcli.errors import ArchError, Mark, Problem
from archcli.render.findings import excerpt, explain

TEXTS = st.text(st.sampled_from("ab: {}\t模型é\u0301n\u0303Ａ\x1b"), max_size=300)


def above(line, carets):
    """The text above the carets, cell by cell as a terminal sets it."""
    start, end = carets.index("^"), len(carets)
    return "".join(c for i, c in enumerate(line) if start <= cell_len(line[: i + 1]) - 1 < end)


def bare(text):
    """Without combining marks."""
    return "".join(c for c in text if cell_len(c))


def drawn(text):
    return text.replace("\t", "    ").replace("\x1b", "\\x1b")


@given(TEXTS, st.integers(0, 299), st.integers(1, 20), st.sampled_from([None, 40, 80, 200]))
def test_carets_stand_below_what_is_marked(text, start, span, width):
    """Whatever is cut off, the text above the carets begins with the first character that is marked."""
    drawing = excerpt(Mark("f", 1, start + 1, text, span), width)
    if not text.strip():
        assert drawing == ()
        return
    line, carets = drawing
    assert cell_len(line) <= (width or 106)
    assert len(carets) <= (width or 106)
    marked = bare(drawn(text[start : start + span]))
    if marked.strip():
        visible = bare(above(line, carets).removesuffix("…"))
        assert visible
        assert marked.startswith(visible.rstrip())


LONG = Mark("f.yaml", 1, 121, f"{'a' * 60}{'模' * 60}bad{'c' * 90}", 3)


@pytest.mark.parametrize("width", [40, 80, None])
def test_a_window_around_the_caret(width):
    line, carets = excerpt(LONG, width)
    assert above(line, carets) == "bad"
    assert line.strip().startswith("…")
    assert line.endswith("…")


@pytest.mark.parametrize("width", [40, 80])
def test_the_end_of_a_long_line_fills_the_window(width):
    line, carets = excerpt(Mark("f", 1, 298, "a" * 297 + "bad", 3), width)
    assert above(line, carets) == "bad"
    assert len(line) in {width - 1, width}


@pytest.mark.parametrize("width", [40, 80])
def test_an_error_is_folded_to_the_terminal(width):
    problem = Problem("one of the values " * 9, "groups.0.layer.ffn.d_ff=11008 " * 5, LONG)
    lines = explain(ArchError(problem), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert all("groups.0.layer.ffn.d_ff=11008" in line for line in lines if "d_ff" in line)


def test_a_word_wider_than_the_terminal_breaks_after_a_sign():
    lines = explain(ArchError(Problem("no file", path="/a/long/path" * 6)), 40).splitlines()
    assert max(map(len, lines)) <= 40
    assert all(line.endswith(("/", ".", "h", ":", "file")) for line in lines)
