"""Pictures of memory and predictions: axes with values, labels apart, a title that ends, pages for phones."""

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from archcli.render.picture.elements import STYLE
from archcli.render.picture.labels import Circle, text_width
from archcli.render.values import short
from archcli.wings.serving.pictures.roofline import _blobs, powers_of_ten, prefixed, ticks

SVG = "{http://www.w3.org/2000/svg}"
LONG = ("--recompute", "layer", "--loss", "chunked:8", "--grad-accum", "4", "--optimizer", "sgd-momentum")
ANSWERS = {
    "memory": ("memory", "gpt2"),
    "long": ("memory", "gpt2", "-s", "64", "--dp", "16", "--zero", "3", *LONG, "--device", "16xl4"),
    "serving": ("memory", "llama-3.1-8b", "--phase", "serve", "--device", "l4"),
    "fitting": ("fit", "llama-3.1-70b", "2x3090"),
    "fitting a context": ("fit", "llama-3.1-8b", "4090", "-c", "32768"),
    "fitting nothing": ("fit", "llama-3.1-405b", "4090"),
    "decoding": ("predict", "llama-3.1-8b", "--device", "h100-sxm"),
    "training": ("predict", "gpt2", "--device", "rtx-4090", "--phase", "train"),
    "context": ("predict", "gpt2", "--device", "h100-sxm", "--phase", "prefill", "--curve", "context"),
}


@pytest.fixture
def drawn(cli, tmp_path):
    """The texts of a picture: (content, left, right, baseline, pixels of the font), and its width."""

    def draw(*command):
        file = tmp_path / "drawn.svg"
        assert cli(*command, "--plot", file).code == 0
        root = ET.fromstring(file.read_text())  # noqa: S314
        return [_placed(node) for node in root.iter(f"{SVG}text")], float(root.get("width")) - 48

    return draw


def _placed(node):
    content, x = "".join(node.itertext()), float(node.get("x"))
    size = 15 if "15px" in node.get("style", "") else 12
    wide = text_width(content, size)
    left = x - {"middle": wide / 2, "end": wide}.get(node.get("text-anchor"), 0)
    return content, left, left + wide, float(node.get("y")), size


@pytest.mark.long
@pytest.mark.parametrize("name", ANSWERS)
def test_all_text_is_inside_and_none_covers_another(drawn, name):
    texts, width = drawn(*ANSWERS[name])
    assert all(right <= width + 24 for _, _, right, _, _ in texts)
    lines = sorted(texts, key=lambda text: text[3])
    near = [(a, b) for i, a in enumerate(lines) for b in lines[i + 1 :] if b[3] - a[3] < 11]
    assert [(a[0], b[0]) for a, b in near if a[1] < b[2] - 2 and b[1] < a[2] - 2] == []
    assert not any("e+" in content or "e-" in content for content, *_ in texts)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", ["memory", "serving"])
def test_the_peaks_stand_on_an_axis_with_amounts(drawn, name):
    """From 0 up, in even steps: as far apart on the page as in bytes."""
    texts, _ = drawn(*ANSWERS[name])
    at = {content: y for content, _, right, y, _ in texts if round(right) == 64}
    amounts = sorted(at.values(), reverse=True)
    assert 4 <= len(amounts) <= 8
    assert max(at, key=at.get) == "0"
    steps = [a - b for a, b in pairwise(amounts)]
    assert steps == pytest.approx([steps[0]] * len(steps), abs=0.2)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.2e-3, 4.1e-2], [5e-3, 1e-2, 2e-2, 5e-2]),
        ([139.0, 3200.0], [100, 200, 500, 1000, 2000, 5000]),
        ([3.0, 900_000.0], [2, 10, 100, 1000, 10_000, 100_000, 1_000_000]),
        ([20.0], [20, 50]),
    ],
)
def test_ticks_hold_all_values_closely(values, expected):
    assert ticks(values) == pytest.approx(expected)


def test_an_axis_writes_its_numbers_in_one_way():
    assert [prefixed(10.0**n) for n in (6, 9, 11, 12, 16)] == ["1M", "1G", "100G", "1T", "10P"]
    assert powers_of_ten(range(-2, 5)) == ["0.01", "0.1", "1", "10", "100", "1,000", "10,000"]
    assert powers_of_ten(range(-6, 1))[0::3] == ["10⁻⁶", "10⁻³", "10⁰"]
    assert short(12345.6, "seconds") == "12,346 s"


def test_marks_on_one_another_have_one_label():
    rows = [{"path": f"layers.*.{name}"} for name in ("a", "b", "c")]
    circles = [Circle(100, 100, 20), Circle(103, 104, 15), Circle(115, 100, 10)]
    assert _blobs(rows, circles) == [(["a", "b"], circles[0]), (["c"], circles[2])]


@pytest.mark.long
def test_the_chosen_format_and_the_context_that_is_asked_for_are_marked(drawn):
    texts = [content for content, *_ in drawn(*ANSWERS["fitting a context"])[0]]
    assert [content for content in texts if content.startswith("chosen: ")] == [
        texts[texts.index("vllm") + 1]
    ]
    assert "asked for: 32,768" in texts
    assert {"bf16", "fp8", "q4_k_m", "65,536", "tokens of context"} <= {*texts}


@pytest.mark.long
def test_a_page_has_a_drawing_for_phones(cli, tmp_path):
    for command in (ANSWERS["memory"], ANSWERS["decoding"], ANSWERS["fitting"]):
        assert cli(*command, "--plot", tmp_path / "p.html").code == 0
        page = (tmp_path / "p.html").read_text()
        assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
        assert page.count("<svg") == 2
        assert 'width="388"' in page
        assert "max-width: 100%" in page


def test_fonts_are_named_that_a_machine_without_arial_has():
    """A PNG is drawn by a library that takes sans-serif for Arial and leaves out text without a font."""
    families = STYLE.partition("font: 12px ")[2].partition(";")[0]
    assert {'"DejaVu Sans"', '"Liberation Sans"'} <= {*families.split(", ")}


def test_marks_are_named_without_the_layer():
    paths = ("layers.*.ffn.gate_proj + layers.0.ffn.up_proj", "layers.3.attention.q_proj", "lm_head")
    marks, circles = [{"path": path} for path in paths], [Circle(9.0 * i, 0.0, 1.0) for i in range(3)]
    assert [names for names, _ in _blobs(marks, circles)] == [
        ["ffn.gate_proj + ffn.up_proj"],
        ["attention.q_proj"],
        ["lm_head"],
    ]
