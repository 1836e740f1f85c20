"""A picture of a profile of a program or module: time by class and by module, to scale."""

from xml.etree import ElementTree as ET

import pytest

from archcli.wings.running.pictures.profile.files import save

SVG = "{http://www.w3.org/2000/svg}"


def row(path, module, op_class, share):
    phase = {"phase": "forward", "class": op_class} if op_class else {}
    return {"path": path, "module": module, **phase, "share": share, "seconds": share}


PROGRAM = {
    "model": {"name": "python <train>.py"},
    "inputs": {},
    "convention": "Shares are of a step.",
    "totals": {
        "steps": 30,
        "steps_watched": 5,
        "step_s": 0.0192,
        "device": "cpu",
        "machine": {"CPU": "2 x EPYC"},
        "by_class": {"framework": 0.25, "contraction": 0.5, "elementwise": 0.125, "waiting": 0.125},
        "by_path": {
            "layers.*.up": 0.5,
            "(data loader)": 0.125,
            "(optimizer)": 0.125,
            "(between kernels)": 0.25,
        },
    },
    "rows": [
        row("layers.*.up", "Linear", "contraction", 0.375),
        row("layers.*.up", "Linear", "contraction", 0.125),
        row("(optimizer)", None, "elementwise", 0.125),
    ],
    "notes": ["NOT RELIABLE: a busy machine.", "Another note."],
}
MODULE = {
    "model": {"name": "GPT"},
    "inputs": {"phase": "forward", "device": "cpu"},
    "convention": "Seconds are medians.",
    "totals": {"wall_s": 0.002, "by_class": {"contraction": 0.75, "framework": 0.25}},
    "rows": [row("up", "Linear", None, 0.75), row("down", "Linear", None, 0.25)],
    "notes": [],
}


@pytest.fixture
def drawn(tmp_path):
    def draw(document):
        save(document, tmp_path / "p.svg")
        return ET.parse(tmp_path / "p.svg").getroot()  # noqa: S314

    return draw


def widths(root, height):
    return [float(each.get("width")) for each in root.iter(f"{SVG}rect") if each.get("height") == height]


def said(root):
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_classes_and_modules_are_as_long_as_their_shares(drawn):
    """The drawing is 912 wide; the longest strip, of half of a step, takes all of it."""
    root = drawn(PROGRAM)
    classes = [0.5, 0.125, 0.125, 0.25]
    assert widths(root, "34") == [912 * share for share in classes]
    strips = [0.5, 0.25, 0.125, 0.125]
    assert widths(root, "12")[len(classes) :] == [912 * share / 0.5 for share in strips]


def test_the_heading_says_how_it_was_watched_and_what_makes_it_unreliable(drawn):
    texts = said(drawn(PROGRAM))
    heading = [
        "python <train>.py: where the time goes",
        "Matrix products: 50.0% of the time.",
        "NOT RELIABLE: a busy machine.",
        "5 of 30 steps traced, 2 x EPYC; 19.2 ms a step",
    ]
    assert texts[:4] == heading
    assert "Another note." not in texts


def test_a_module_has_strips_without_classes(drawn):
    root = drawn(MODULE)
    assert widths(root, "12")[2:] == [912.0, 912 / 3]
    assert "forward, cpu; 2.000 ms a pass" in said(root)


def test_modules_beyond_twenty_are_counted(drawn):
    rows = [row(f"layers.{i}", "Linear", None, 1 / 25) for i in range(25)]
    assert "and 5 more" in said(drawn(MODULE | {"rows": rows}))


def test_a_long_path_keeps_its_end_and_the_drawing_its_width(drawn):
    path = "encoder." * 40 + "query"
    [name] = [
        text for text in said(drawn(MODULE | {"rows": [row(path, "Linear", None, 1.0)]})) if "query" in text
    ]
    assert name.startswith("…")
    assert name.endswith(".encoder.query")


def test_the_page_has_the_tables(tmp_path):
    save(PROGRAM, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    for line in (
        "<td>matrix products</td><td>50.00%</td>",
        "<td>layers.*.up Linear</td><td>50.00%</td>",
        "<td>layers.*.up, forward, matrix products</td><td>37.50%</td><td>375.000</td>",
    ):
        assert line in page
    assert "<train>" not in page
    assert page.count("NOT RELIABLE") == 1
