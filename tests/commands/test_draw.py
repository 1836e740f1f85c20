"""`archcli draw`: what it writes, what it prints, and what it refuses without leaving half of a file."""

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import archcli
from archcli.errors import ArchError
from archcli.render.picture import files
from archcli.render.screen import cell_width
from archcli.wings.drawing.api.draw import MOST_MODELS
from archcli.wings.drawing.picture.architecture.plain.lines import ASCII, BLOCKS, bar, fitted, signs_for
from table import every_row

PROFILE = Path(__file__).parents[2] / "docs" / "pictures" / "profile.json"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.long
def test_a_file_is_written_in_the_format_of_its_suffix(cli, tmp_path):
    for suffix, begin in ((".svg", b"<svg "), (".html", b"<!doctype html>"), (".png", b"\x89PNG\r\n\x1a\n")):
        file = tmp_path / f"drawn{suffix}"
        done = cli("draw", "gpt2", "-o", file)
        assert (done.code, done.out, done.err) == (0, "", f"{file}\n")
        assert file.read_bytes().startswith(begin)


def test_a_dash_prints_the_svg(cli):
    done = cli("draw", "gpt2", "-o", "-")
    assert done.code == 0
    assert done.out == archcli.draw("gpt2").svg()
    assert ET.fromstring(done.out).tag == f"{SVG}svg"  # noqa: S314


def test_without_a_file_it_is_text(cli):
    done = cli("draw", "gpt2")
    assert done.code == 0
    assert "\x1b" not in done.out
    assert done.out == str(archcli.draw("gpt2"))
    assert done.out.startswith("gpt2\n")


def test_json_says_what_is_drawn_and_written(cli, tmp_path):
    """Of gpt2's 124,439,808 parameters the tables have (50,257 + 1,024) x 768."""
    file = tmp_path / "drawn.svg"
    answer = json.loads(cli("draw", "gpt2", "-o", file, "--json").out)
    assert answer["totals"] == {"file": str(file)}
    stored = {row["component"]: row["stored"] for row in answer["rows"]}
    assert stored["embedding, head"] == (50_257 + 1_024) * 768
    assert sum(stored.values()) == 124_439_808
    refused = cli("draw", "gpt2", "-o", "-", "--json")
    assert (refused.code, refused.out) == (2, "")
    assert "--json and the file would both go to standard output" in refused.err


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "model", ["gpt2", "deepseek-v3", "qwen3-next-80b-a3b", "t5-base", "gemma-3n-e2b", "nemotron-h-8b"]
)
@every_row("width", [40, 60, 80, 120, 200])
def test_text_fits_its_terminal(model, width):
    for encoding in ("utf-8", "ascii", "latin-1"):
        text = archcli.draw(model).text(width, encoding)
        assert max(map(cell_width, text.splitlines())) <= width
        assert text.encode(encoding)


def test_text_in_a_terminal_has_colours_unless_told_otherwise(cli, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = archcli.draw("gpt2").text(70)
    assert re.sub(r"\x1b\[[\d;]*m", "", archcli.draw("gpt2").text(70, coloured=True)) == plain
    assert "\x1b[" in archcli.draw("gpt2").text(70, coloured=True)


def test_bars_are_to_scale():
    assert bar(0.5, 8, BLOCKS) == "████"
    assert bar(3 / 16, 2, BLOCKS) == "▍"
    assert bar(0.5, 8, ASCII) == "####"
    assert bar(1e-9, 8, BLOCKS) == "▏"  # what is there is seen
    assert bar(0, 8, BLOCKS) == ""
    assert signs_for("no such encoding") == ASCII
    assert fitted([("abc", ""), ("def", "bold")], 5, BLOCKS) == [("abc", ""), ("d", "bold"), ("…", "")]


@pytest.mark.long
def test_the_shown_quantity_chooses_the_foot(cli):
    for shown, words in (
        ("params", "Where the parameters are"),
        ("flops", "Where the FLOPs of "),
        ("bytes", "Where the bytes of the weights are"),
        ("kv", "Where the cache of 1,024 tokens is"),
    ):
        assert words in cli("draw", "gpt2", "--show", shown, "-o", "-").out
        assert words in cli("draw", "gpt2", "--show", shown).out


def test_time_is_that_of_a_profile(cli):
    done = cli("draw", "ivanov", "--show", "time", "--profile", PROFILE, "-o", "-")
    assert done.code == 0
    assert "Where the time goes" in done.out
    values = [
        float(element.get("data-value"))
        for element in ET.fromstring(done.out).iter(f"{SVG}rect")  # noqa: S314
        if element.get("data-command") == "profile"
    ]
    document = json.loads(PROFILE.read_text())
    totals, rows = document["totals"], document["rows"]
    outside = sum(max(totals[f"{name}_share"], 0) for name in ("framework", "unattributed"))
    assert sum(values) == pytest.approx(sum(row["seconds"] for row in rows) + outside * totals["wall_s"])


def test_several_models_are_columns(cli):
    done = cli("draw", "gpt2", "gpt2", "--set", "2:d_ff=1024", "-o", "-")
    assert done.code == 0
    texts = ["".join(node.itertext()) for node in ET.fromstring(done.out).iter(f"{SVG}text")]  # noqa: S314
    assert texts.count("Layers") == 2
    assert texts.count("gpt2 #1") == texts.count("gpt2 #2") == 2
    assert "ffn.d_ff" in texts
    assert {"3,072", "1,024"} <= {*texts}
    # of the second model: the attention is the first's, the network and with it the kind of layer is not
    assert done.out.count("<title>differs</title>") == 2


@every_row(
    "options, told",
    [
        ((), "draw needs a model, and none is named"),
        (("gpt2",) * (MOST_MODELS + 1), f"draw takes up to {MOST_MODELS} models, and 5 are named"),
        (("gpt2", "-o", "gpt2.pdf"), "gpt2.pdf ends in none of .svg, .html, .png"),
        (("gpt2", "-o", "missing/gpt2.svg"), "cannot write missing/gpt2.svg: No such file or directory"),
        (("gpt2", "--show", "time"), "--show time needs --profile"),
        (("gpt2", "--profile", PROFILE), "--profile has times, and --show params has no use of them"),
        (("gpt2", "--show", "time", "--profile", PROFILE), "a profile of 'ivanov', not of 'gpt2'"),
        (
            ("ivanov", "--set", "d_ff=8", "--show", "time", "--profile", PROFILE),
            "a profile of 'ivanov', not of 'ivanov --set d_ff=8'",
        ),
        (
            ("gpt2", "--show", "time", "--profile", "none.json"),
            "none.json: error: cannot be read: No such file or directory",
        ),
        (("gpt2", "--set", "2:d_ff=1"), "--set 2:d_ff=1: error: there is no model 2"),
        (("no-such-model", "-o", "x.svg"), "no-such-model"),
    ],
)
def test_bad_input_is_a_line_and_leaves_nothing(cli, tmp_path, monkeypatch, options, told):
    monkeypatch.chdir(tmp_path)
    done = cli("draw", *options)
    assert done.code == 2
    assert done.out == ""
    first, *hints = done.err.splitlines()
    assert told in first
    assert all(hint.startswith(" ") for hint in hints)
    assert [*tmp_path.iterdir()] == []


def test_a_drawing_in_python_shows_prints_and_is_saved(tmp_path):
    drawing = archcli.draw("gpt2", show="flops")
    assert drawing._repr_svg_() == drawing.svg()
    assert repr(drawing) == "ArchitectureDrawing(gpt2)"
    assert drawing.save(tmp_path / "gpt2.svg").read_text() == drawing.svg()
    with pytest.raises(ArchError, match=r"ends in none of"):
        drawing.save(tmp_path / "gpt2.gif")
    with pytest.raises(ArchError, match=r"show"):
        archcli.draw("gpt2", show="size")


def test_a_png_without_fonts_is_refused(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FONTS", ("No Such Font",))
    done = cli("draw", "gpt2", "-o", tmp_path / "gpt2.png")
    assert done.code == 2
    assert done.err.startswith("error: a .png would have no text")
    assert [*tmp_path.iterdir()] == []


def test_a_name_is_text_in_a_drawing(tmp_path):
    model = archcli.load("gpt2", ["name=<script>&\"'"])
    text = archcli.draw(model).svg()
    assert "<script" not in text
    ET.fromstring(text)  # noqa: S314
