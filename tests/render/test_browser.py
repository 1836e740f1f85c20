"""The page and the drawing of a profile in a real browser: Debian's chromium, headless.

At the width of a phone, a tablet and a desktop, light and dark: no text lies on text or on a mark that is not
its ground, all text has a contrast of 4.5, nothing is wider than the screen, one left edge, warnings on top.
`apt-get install chromium chromium-driver` installs what it needs.
"""

import copy
import json
import shutil
from pathlib import Path

import pytest

from archcli.wings.running.pictures.profile.files import save
from archcli.wings.serving.recorded.classes import TimeClass
from browsing import contains, drawn_whole, overprinted, pale, seen

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium (apt: chromium chromium-driver)"),
]
SCREENS = [(width, scheme) for width in (400, 800, 1400) for scheme in ("light", "dark")]
SAVED = json.loads((Path(__file__).parents[2] / "docs" / "pictures" / "profile.json").read_text())


@pytest.fixture(scope="module")
def browser():
    """A headless chromium that emulates screens."""
    selenium = pytest.importorskip("selenium.webdriver", reason="no selenium: it is in the extra `dev`")
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


def changed(**totals):
    document = copy.deepcopy(SAVED)
    document["totals"].update(totals)
    return document


def unreliable():
    told = (
        "NOT RELIABLE: a busy machine: other processes took 1.6 of 2 processors; threads waited for one 82%"
    )
    return changed(reliable=False, warnings=[f"{told} of their time.", "Tracing slowed it."])


def many_classes():
    """Every class has a share, and the name of the model is long."""
    document = changed()
    sample = document["totals"]["by_class"]["contraction"]
    shares = dict.fromkeys(("flop_share", "byte_share", "time_share"), 0.1)
    document["totals"]["by_class"] = {str(op_class): sample | shares for op_class in TimeClass}
    document["model"]["name"] = "a-model-of-a-long-name-" * 5
    return document


def more_than_the_whole():
    """Operations explain more than the plain wall time: a line marks 100%, in the middle of a segment."""
    document = changed()
    shares = {"contraction": 0.8, "random": 0.4, "unattributed": -0.3}
    for name, share in shares.items():
        document["totals"]["by_class"][name]["time_share"] = share
    return document


def crowded():
    """Forty operators of equal time near one another, with long names."""
    document = changed()
    row = document["rows"][0]
    document["rows"] = [
        row
        | {
            "path": f"layers.*.attention.a_long_name_of_{i}",
            "time_share": 0.025,
            "seconds": row["seconds"] * (1 + i % 7 / 10),
            "bytes": row["bytes"] * (1 + i % 5),
        }
        for i in range(40)
    ]
    return document


def nothing_computed():
    document = changed()
    document["rows"] = [row | {"executed_flops": 0} for row in document["rows"]]
    return document


DOCUMENTS = {
    "saved": changed,
    "unreliable": unreliable,
    "many classes": many_classes,
    "more than the whole": more_than_the_whole,
    "crowded": crowded,
    "nothing computed": nothing_computed,
    "without ceilings": lambda: changed(ceilings=None),
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_the_page_is_read_on_any_screen(browser, tmp_path, name, width, scheme):
    save(DOCUMENTS[name](), tmp_path / "p.html")
    shown = seen(browser, tmp_path / "p.html", width, scheme)
    assert len(shown["texts"]) > 30
    assert list(overprinted(shown)) == []
    assert pale(shown) == {}
    assert [text["text"] for text in shown["texts"] if text["svg"] and not drawn_whole(text)] == []
    assert shown["page"][0] <= shown["page"][1] == width
    assert all(overflow == "auto" for _, _, overflow in shown["scrolls"])
    assert shown["resources"] == []


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_all_begins_at_one_left_edge(browser, tmp_path, width, scheme):
    save(unreliable(), tmp_path / "p.html")
    shown = seen(browser, tmp_path / "p.html", width, scheme)
    lefts = {block["name"]: block["box"][0] for block in shown["blocks"]}
    edge = lefts["H1."]
    assert {name: left for name, left in lefts.items() if abs(left - edge) > 0.5} == {}
    drawn = [text for text in shown["texts"] if text["svg"]]
    assert min(shape["box"][0] for shape in [*drawn, *shown["grounds"]]) == pytest.approx(edge, abs=1.5)
    names = {"FLOPs", "bytes", "time", "FLOP/s"}
    named = {text["text"]: text["box"][0] for text in drawn if text["text"] in names}
    assert named == pytest.approx(dict.fromkeys(names, edge), abs=1.5)


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_the_warning_stands_above_all_figures(browser, tmp_path, width):
    save(unreliable(), tmp_path / "p.html")
    shown = seen(browser, tmp_path / "p.html", width, "light")
    [frame] = [block["box"] for block in shown["blocks"] if block["name"] == "DIV.warnings"]
    assert frame[3] < 600
    assert frame[3] < min(ground["box"][1] for ground in shown["grounds"])
    assert frame[3] < min(block["box"][1] for block in shown["blocks"] if block["name"] == "H2.")


def test_tables_scroll_within_themselves_on_a_phone(browser, tmp_path):
    save(crowded(), tmp_path / "p.html")
    shown = seen(browser, tmp_path / "p.html", 400, "light")
    assert any(whole > room for room, whole, _ in shown["scrolls"])
    assert shown["page"][0] == 400


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_drawing_alone_is_read_as_well(browser, tmp_path, name, scheme):
    save(DOCUMENTS[name](), tmp_path / "p.svg")
    shown = seen(browser, tmp_path / "p.svg", 1000, scheme)
    assert list(overprinted(shown)) == []
    assert pale(shown) == {}
    assert [text["text"] for text in shown["texts"] if text["svg"] and not drawn_whole(text)] == []
    paper = next(ground["box"] for ground in shown["grounds"] if ground["paper"])
    assert all(contains(paper, text["box"]) for text in shown["texts"])


def test_what_the_checks_look_for_is_seen(browser, tmp_path):
    """A page made wrong on purpose: text on text, on a mark and on a line, a pale word, a wide block."""
    wrong = """<!doctype html><body style="background: #fff; margin: 0"><p style="color: #bbb">pale</p>
    <div style="width: 900px">wide</div><svg width="300" height="200">
    <circle cx="20" cy="100" r="9"/><text x="10" y="104">on a mark</text><text x="12" y="108">on text</text>
    <line class="roof" x1="0" y1="150" x2="300" y2="150"/><text x="100" y="154">on a line</text>
    <rect x="200" y="20" width="20" height="20" fill="#e69f00"/>
    <text x="195" y="34" fill="#fff">half</text></svg>"""
    (tmp_path / "p.html").write_text(wrong)
    shown = seen(browser, tmp_path / "p.html", 400, "light")
    faults = set(overprinted(shown))
    assert {
        "on a mark on a mark",
        "on text on on a mark",
        "on a line on a line",
        "half half on a segment",
    } <= faults
    assert {"pale", "half"} <= pale(shown).keys()
    assert shown["page"][0] > 400
