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

from archcli.recording.classes import TimeClass
from archcli.render.picture import save

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium (apt: chromium chromium-driver)"),
]
SCREENS = [(width, scheme) for width in (400, 800, 1400) for scheme in ("light", "dark")]
LEAST_CONTRAST = 4.5
SAVED = json.loads((Path(__file__).parents[2] / "docs" / "pictures" / "profile.json").read_text())

LOOK = """
const visible = (node) => node.checkVisibility() && node.getBoundingClientRect().width > 0;
const box = (r) => [r.left, r.top, r.right, r.bottom];
const inSvg = (node) => node.ownerSVGElement && visible(node);
const all = (selector) => [...document.querySelectorAll(selector)];
const grounds = all('svg rect').filter(visible).map((r) => ({box: box(r.getBoundingClientRect()),
  fill: getComputedStyle(r).fill, paper: r.classList.contains('paper')}));
const texts = [];
for (const node of all('svg text').filter(visible))
  texts.push({text: node.textContent, box: box(node.getBoundingClientRect()),
    ink: getComputedStyle(node).fill, ground: null, svg: true,
    drawing: box(node.ownerSVGElement.getBoundingClientRect())});
const ground = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const fill = getComputedStyle(e).backgroundColor;
    if (fill !== 'rgba(0, 0, 0, 0)') return fill;
  }
  return null;
};
if (document.body) {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, holder = node.parentElement;
    if (!node.textContent.trim() || holder.closest('svg') || !visible(holder)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects())
      texts.push({text: node.textContent.trim(), box: box(r), ink: getComputedStyle(holder).color,
        ground: ground(holder), svg: false});
  }
}
const line = (l) => {
  const m = l.getScreenCTM(), at = (x, y) => [m.a * x + m.e, m.d * y + m.f];
  return [...at(l.x1.baseVal.value, l.y1.baseVal.value), ...at(l.x2.baseVal.value, l.y2.baseVal.value)];
};
return {
  texts, grounds,
  circles: all('svg circle').filter(visible).map((c) => box(c.getBoundingClientRect())),
  lines: all('svg line.roof, svg line.leader').filter(visible).map(line),
  blocks: all('h1, h2, body > p, .warnings, .scroll, table').filter(visible).map((e) =>
    ({name: e.tagName + '.' + e.className, box: box(e.getBoundingClientRect())})),
  scrolls: all('.scroll').map((e) => [e.clientWidth, e.scrollWidth, getComputedStyle(e).overflowX]),
  page: [document.documentElement.scrollWidth, innerWidth],
  body: document.body ? ground(document.body) : null,
  resources: performance.getEntriesByType('resource').map((e) => e.name),
};
"""


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


def seen(browser, file, width, scheme):
    """What the browser shows of a file on a screen so wide."""
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(file.as_uri())
    return browser.execute_script(LOOK)


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


def shrunk(box, by=1.0):
    return box[0] + by, box[1] + by, box[2] - by, box[3] - by


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def contains(outer, inner):
    return outer[0] <= inner[0] and outer[1] <= inner[1] and outer[2] >= inner[2] and outer[3] >= inner[3]


def crosses(line, box):
    """By points a third of a pixel apart."""
    x1, y1, x2, y2 = line
    steps = int(3 * max(abs(x2 - x1), abs(y2 - y1))) + 1
    points = ((x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps) for i in range(steps + 1))
    return any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)


def overprinted(shown):
    """Texts that lie on other text, on a mark, on a line, or half on a segment of a bar."""
    texts = [(text["text"], shrunk(text["box"])) for text in shown["texts"]]
    segments = [ground["box"] for ground in shown["grounds"] if not ground["paper"]]
    for i, (name, box) in enumerate(texts):
        yield from (f"{name} on {other}" for other, place in texts[:i] if overlap(box, place))
        yield from (f"{name} on a mark" for mark in shown["circles"] if overlap(box, shrunk(mark)))
        yield from (f"{name} on a line" for line in shown["lines"] if crosses(line, box))
        halves = [place for place in segments if overlap(box, shrunk(place)) and not contains(place, box)]
        yield from (f"{name} half on a segment" for _ in halves)


def channels(colour):
    return [int(value) for value in colour.partition("(")[2].rstrip(")").split(",")[:3]]


def luminance(colour):
    """WCAG 2.2, "relative luminance"."""
    shares = [value / 255 for value in channels(colour)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(text, shown):
    """WCAG 2.2, "contrast ratio", to the last shape under the middle of the text, else to the page."""
    left, top, right, bottom = text["box"]
    point = (left + right) / 2, (top + bottom) / 2
    under = [ground["fill"] for ground in shown["grounds"] if contains(ground["box"], (*point, *point))]
    ground = text["ground"] or (under[-1] if under else shown["body"])
    light, dark = sorted((luminance(text["ink"]), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def drawn_whole(text):
    """Whether a text of a drawing is cut off nowhere, to half a pixel."""
    left, top, right, bottom = text["drawing"]
    return contains((left - 0.5, top - 0.5, right + 0.5, bottom + 0.5), text["box"])


def pale(shown):
    """Texts by name whose contrast is too low."""
    contrasts = {text["text"]: contrast(text, shown) for text in shown["texts"]}
    return {name: ratio for name, ratio in contrasts.items() if ratio < LEAST_CONTRAST}


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
    names = {"FLOPs", "bytes", "time", "GFLOP/s"}
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
