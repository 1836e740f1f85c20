"""A picture of a profile: well-formed, drawn to scale, escaped, light, and the same on dark ground."""

import copy
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from archcli.errors import ArchError
from archcli.render.picture.elements import COLOURS, UNKNOWN, ink_on
from archcli.render.picture.labels import Box, Canvas, Circle, Segment, crosses, text_width, wrapped
from archcli.wings.running.pictures.profile.files import save
from archcli.wings.serving.recorded.classes import TimeClass
from table import every_row

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"


def figures(flops, moved, seconds, op_class="contraction", path="x"):
    return {
        "path": path,
        "class": op_class,
        "flops": flops,
        "executed_flops": flops,
        "bytes": moved,
        "seconds": seconds,
        "flop_share": flops / 1000,
        "byte_share": moved / 1000,
        "time_share": seconds / 10,
    }


DOCUMENT = {
    "schema_version": 1,
    "command": "profile",
    "model": {"name": "tiny <b>&", "source": ""},
    "inputs": {
        "phase": "forward",
        "batch_size": 1,
        "seq_len": 8,
        "past": 0,
        "dtype": "fp32",
        "device": "cpu",
    },
    "convention": "FLOP = 2 x multiply-add <&>.",
    "totals": {
        "wall_s": 10.0,
        "by_class": {
            "contraction": figures(990, 500, 6.0),
            "normalization": figures(10, 300, 3.0),
            "unattributed": figures(0, 0, 1.0),
            "framework": figures(0, 200, 0.0),
        },
        "ceilings": {"gemm_flops_per_s": 1000.0, "dram_bytes_per_s": 100.0, "cache_bytes_per_s": 400.0},
    },
    "rows": [
        figures(1000, 10, 5.0, "contraction", "layers.*.ffn.<up>"),
        figures(10, 100, 2.5, "normalization", "layers.*.norm"),
        figures(0, 100, 1.0, "movement", "copy"),
    ],
    "notes": ["Weights are random."],
}


def drawn(tmp_path, document=DOCUMENT):
    save(document, tmp_path / "p.svg")
    return ET.parse(tmp_path / "p.svg").getroot()  # noqa: S314


def said(root):
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_bars_are_as_long_as_the_shares(tmp_path):
    rectangles = [each.attrib for each in drawn(tmp_path).iter(f"{SVG}rect") if each.get("height") == "34"]
    widths = [float(each["width"]) for each in rectangles]
    shares = [0.99, 0.01, 0.5, 0.3, 0.2, 0.6, 0.3, 0.1]
    assert widths == [pytest.approx(share * 912, abs=0.05) for share in shares]
    assert len({each["fill"] for each in rectangles}) == 4


def test_what_is_extrapolated_says_so_in_the_title(tmp_path):
    document = DOCUMENT | {"totals": DOCUMENT["totals"] | {"extrapolated": True}}
    assert said(drawn(tmp_path, document))[0] == "tiny <b>&: where the time goes, extrapolated"
    assert said(drawn(tmp_path))[0] == "tiny <b>&: where the time goes"


def test_every_class_has_a_label_and_a_colour_of_its_own(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    document["totals"]["by_class"] = {str(op_class): figures(100, 100, 1.0) for op_class in TimeClass}
    root = drawn(tmp_path, document)
    assert {op_class.label for op_class in TimeClass} <= set(said(root))
    legend = [each.get("fill") for each in root.iter(f"{SVG}rect") if each.get("height") == "12"]
    assert len(set(legend)) == len(legend) == len(TimeClass)


def test_what_passes_the_whole_is_drawn_with_a_line_where_the_whole_ends(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    document["totals"]["by_class"]["contraction"]["time_share"] = 1.1
    document["totals"]["by_class"]["unattributed"]["time_share"] = -0.4
    root = drawn(tmp_path, document)
    widths = [float(each.get("width")) for each in root.iter(f"{SVG}rect") if each.get("height") == "34"][-2:]
    assert widths == [round(912 * 1.1 / 1.4, 1), round(912 * 0.3 / 1.4, 1)]
    [line] = [
        each for each in root.iter(f"{SVG}line") if each.get("x1") == each.get("x2") == f"{912 / 1.4:.1f}"
    ]
    assert line.get("class") == "roof"
    assert "unattributed" not in said(root)


def test_marks_stand_at_their_intensity_and_speed_with_an_area_of_their_time(tmp_path):
    """Intensity 100 and 0.1 span three decades; speeds 200 and 4, the peak 1000: decades 0 to 4.

    The frame is 48 to 912 wide and 360 tall; the largest mark has a radius of 26, and 4 are left beside it.
    """
    circles = [each.attrib for each in drawn(tmp_path).iter(f"{SVG}circle")]
    assert [float(each["cx"]) for each in circles] == [912 - 30, 48 + 30]
    assert float(circles[0]["r"]) ** 2 == pytest.approx(2 * float(circles[1]["r"]) ** 2, rel=0.01)
    heights = [float(each["cy"]) for each in circles]
    assert heights[1] - heights[0] == pytest.approx((360 - 60) * 1.699 / 4, abs=0.2)  # log10(200 / 4) = 1.699


def test_roofs_meet_at_the_ridge(tmp_path):
    """At 1000 FLOP/s and 100 byte/s the ridge is at 10 FLOP/byte, two of three decades across.

    The cache's at 2.5.
    """
    slopes = [each.attrib for each in drawn(tmp_path).iter(f"{SVG}line") if each.get("stroke-dasharray")]
    assert [round(float(each["x2"])) for each in slopes] == [round(78 + 804 * 1.39794 / 3), 78 + 804 * 2 / 3]


def test_without_ceilings_there_are_marks_and_no_roofs(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    del document["totals"]["ceilings"]
    root = drawn(tmp_path, document)
    assert len(list(root.iter(f"{SVG}circle"))) == 2
    assert not [each for each in root.iter(f"{SVG}line") if each.get("class") == "roof"]


def test_nothing_of_a_file_is_taken_for_markup(tmp_path):
    root = drawn(tmp_path)
    assert "tiny <b>&: where the time goes" in said(root)
    save(DOCUMENT, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert "<b>" not in page
    assert "<up>" not in page
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_picture_is_light_and_knows_dark_ground(tmp_path):
    save(DOCUMENT, tmp_path / "p.svg")
    text = (tmp_path / "p.svg").read_text()
    assert len(text) < 12_000
    assert "prefers-color-scheme: dark" in text


@pytest.mark.long
def test_the_picture_of_the_documentation_is_what_plot_draws(archcli, tmp_path, renew):
    """`pytest -n0 --renew tests/render/test_picture.py` draws it anew, to be looked at."""
    saved, drawing = PICTURES / "profile.json", PICTURES / "profile.svg"
    assert archcli("plot", saved, "-o", "p.svg", cwd=tmp_path).returncode == 0
    text = (tmp_path / "p.svg").read_text()
    if renew:
        drawing.write_text(text)
    assert text == drawing.read_text()


def test_the_picture_names_the_processor(tmp_path):
    """A CPU by its own name, a GPU by the card's."""
    machine = {"CPU": "2 x A Processor", "processor": "A Card"}
    for device, name in (("cpu", "2 x A Processor"), ("cuda", "A Card")):
        document = DOCUMENT | {
            "inputs": DOCUMENT["inputs"] | {"device": device},
            "totals": DOCUMENT["totals"] | {"machine": machine},
        }
        assert name in said(drawn(tmp_path, document))[2]


def test_the_shares_of_what_computes_most_are_said(tmp_path):
    assert (
        said(drawn(tmp_path))[1]
        == "Matrix products: 99.0% of the FLOPs, 50.0% of the bytes, 60.0% of the time."
    )


def warned(**totals):
    return DOCUMENT | {"totals": DOCUMENT["totals"] | totals}


def test_a_drawing_that_is_not_reliable_says_why_above_all_else(tmp_path):
    why = "NOT RELIABLE: a busy machine: other processes took 1.9 of 2 processors."
    assert said(drawn(tmp_path, warned(reliable=False, warnings=[why])))[2] == why
    assert said(drawn(tmp_path, warned(reliable=True, warnings=["Tracing slowed it."])))[2].startswith(
        "phase"
    )


def test_a_profile_saved_without_warnings_apart_shows_those_of_its_notes(tmp_path):
    early = warned(reliable=False) | {"notes": ["NOT RELIABLE: they differ.", "Weights are random."]}
    assert said(drawn(tmp_path, early))[2] == "NOT RELIABLE: they differ."
    assert said(drawn(tmp_path, warned(reliable=False)))[2] == "NOT RELIABLE, see the notes."


def test_a_page_has_its_warnings_first_and_once(tmp_path):
    document = warned(reliable=False, warnings=["NOT RELIABLE: <b>."]) | {
        "notes": ["NOT RELIABLE: <b>.", "Other."]
    }
    save(document, tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert text.count("NOT RELIABLE: &lt;b&gt;.") == 1
    assert text.index("NOT RELIABLE") < text.index("<svg") < text.index("Other.")
    assert '<meta name="viewport" content="width=device-width' in text


def test_lines_without_a_share_are_no_lines_of_a_table(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    document["totals"]["by_class"]["routing"] = figures(0, 0, 0.0)
    document["rows"].append(figures(0, 0, 0.0001, "movement", "views"))
    save(document, tmp_path / "p.html")
    text = (tmp_path / "p.html").read_text()
    assert "<td>routing</td>" not in text
    assert "<td>views</td>" not in text
    assert "Not shown: 1 of 5 classes" in text
    assert "Not shown: 1 of 4 operators" in text


@every_row("ground", [*COLOURS.values(), UNKNOWN, "#777777", "#000000", "#ffffff"])
def test_text_on_any_segment_is_readable(ground):
    """WCAG 2.2 asks for 4.5; black and white on #777777 are 4.48 and 4.69."""
    light, dark = sorted((luminance(ink_on(ground)), luminance(ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def luminance(colour):
    linear = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in linear)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_long_words_are_broken_and_lines_are_narrow_enough():
    lines = list(wrapped("a-word-that-is-long " * 3 + "w" * 300, 200))
    assert "".join(lines).replace(" ", "") == "a-word-that-is-long" * 3 + "w" * 300
    assert max(map(text_width, lines)) <= 200
    assert list(wrapped("", 100)) == [""]


@pytest.mark.parametrize(
    ("line", "crossed"),
    [((0, 0, 10, 10), True), ((0, 10, 3.9, 10), False), ((5, -5, 5, 20), True), ((0, 20, 20, 11), False)],
)
def test_a_line_crosses_a_box_or_passes_by(line, crossed):
    assert crosses(Segment(*line), Box(4, 4, 8, 8)) is crossed


def test_text_goes_where_nothing_is_covered():
    canvas = Canvas(Box(0, 0, 100, 100), circles=[Circle(50, 50, 10)], segments=[Segment(0, 20, 100, 20)])
    boxes = [Box(45, 45, 55, 55), Box(10, 15, 30, 25), Box(90, 50, 110, 60), Box(70, 70, 90, 80)]
    assert canvas.first_free(boxes) == boxes[-1]
    assert canvas.first_free(boxes) is None


@pytest.mark.long
def test_a_png_is_one(tmp_path):
    save(DOCUMENT, tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_another_suffix_is_refused_and_nothing_written(tmp_path):
    with pytest.raises(ArchError, match=r"ends in none of \.svg, \.html, \.png"):
        save(DOCUMENT, tmp_path / "p.pdf")
    assert not list(tmp_path.iterdir())


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a result of archcli"),
        ("[1]", "not a result of archcli"),
        (json.dumps(DOCUMENT | {"schema_version": 9}), "of form 9"),
        (json.dumps(DOCUMENT | {"command": "flops"}), "a result of 'flops', not of profile"),
        (json.dumps(DOCUMENT), "no profile as archcli writes it: inputs.source_len: missing"),
    ],
)
def test_a_file_that_is_no_profile_is_told(archcli, tmp_path, text, words):
    (tmp_path / "p.json").write_text(text)
    done = archcli("plot", "p.json", "-o", "p.svg", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "p.svg").exists()
