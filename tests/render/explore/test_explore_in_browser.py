"""The page of a drawing in a real browser: Debian's chromium, headless.

It is silent and loads nothing; all of it is reached by the keyboard; what it says of an element is that
command's JSON; folding overprints no text; a step lights what runs.
"""

import base64
import json
import shlex
import struct
from random import Random
from xml.etree import ElementTree as ET

import pytest

import archcli
from browsing import overlap, shrunk

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
]
MODELS = ("gpt2", "deepseek-v3", "jamba-1.5-mini", "t5-base", "llama-3.2-11b-vision")
PAIR = ("llama-3.1-8b", "mixtral-8x7b")
TEXTS = """
return [...document.querySelectorAll('#drawing > svg text')].filter((e) => e.getClientRects().length)
  .map((e) => [e.textContent, e.getBoundingClientRect()])
  .map(([text, r]) => [text, [r.left, r.top, r.right, r.bottom]]);
"""
HEIGHT = "return document.querySelector('#drawing > svg').viewBox.baseVal.height"
LIT = """
const lit = (name) => [...document.querySelectorAll(`.runs[data-${name}]`)].map((e) => e.dataset[name]);
const once = (names) => [...new Set(names)].sort();
return Object.fromEntries(['part', 'kind', 'of', 'end'].map((name) => [name, once(lit(name))]));
"""


def screen(browser, width, scheme="light", media=""):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features, "media": media})


def opened(browser, file, address=""):
    """The page at an address, loaded anew."""
    browser.get("about:blank")
    browser.get(f"{file.as_uri()}#{address}")


def said(browser):
    """What the page has said on the console since this was last asked."""
    return [entry["message"] for entry in browser.get_log("browser")]


def by_id(browser, name):
    return browser.find_element("id", name)


def press(browser, *keys):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    for key in keys:
        ActionChains(browser).send_keys(getattr(Keys, key, key)).perform()


def clipboard(browser):
    return browser.execute_async_script("navigator.clipboard.readText().then(arguments[0])")


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("address", ["", "step=2"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1000, 1400])
def test_no_page_scrolls_sideways_speaks_or_loads(browser, pages, width, scheme, address):
    screen(browser, width, scheme)
    for models in (("deepseek-v3",), ("llama-3.2-11b-vision",), PAIR):
        opened(browser, pages(*models), address)
        within = "return document.documentElement.scrollWidth <= innerWidth"
        assert browser.execute_script(within), models
        loaded = "return performance.getEntriesByType('resource').map((e) => e.name)"
        assert browser.execute_script(loaded) == []
    assert said(browser) == []


def test_controls_have_names_and_the_keyboard_reaches_them_in_order(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    names = """return [...document.querySelectorAll('button, input, [role=button]')].map((e) =>
      e.ariaLabel || e.textContent.trim() || [...e.labels ?? []].map((l) => l.textContent).join())"""
    assert all(browser.execute_script(names))
    reached = []
    for _ in range(12):
        press(browser, "TAB")
        focus = browser.switch_to.active_element
        reached.append(focus.get_attribute("id") or focus.get_attribute("aria-label"))
    assert reached[:6] == ["find", "follow", "fold", "copy", "save", "help"]
    folds = [name for name in reached if name and name.startswith("Fold ")]
    assert [name.split()[1] for name in folds] == ["Layers", "A", "B"]


def test_the_focus_is_seen_wherever_it_is(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    seen = """const e = document.activeElement, frame = document.querySelector('.marks .at');
      const ring = (of) => getComputedStyle(of);
      if (e.matches('.toggle')) return ring(e.firstChild).stroke !== 'none';
      return ring(e).outlineStyle !== 'none' || !!frame"""
    for _ in range(12):
        press(browser, "TAB")
        name = browser.switch_to.active_element.get_attribute("outerHTML")[:90]
        assert browser.execute_script(seen), name


@pytest.mark.parametrize("model", ["gpt2", "deepseek-v3", "t5-base"])
def test_what_is_said_of_an_element_is_in_the_json_of_its_command(browser, pages, model):
    screen(browser, 1400)
    opened(browser, pages(model))
    rng, rows = Random(model), {row["id"]: row for row in archcli.show(model).rows}  # noqa: S311
    elements = [
        element
        for element in browser.find_elements("css selector", "#drawing [data-command=show][data-path]")
        if element.get_attribute("data-path") in rows and "*" not in element.get_attribute("data-key")
    ]
    for element in rng.sample(elements, 15):
        browser.execute_script(
            "arguments[0].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))", element
        )
        path, key = (element.get_attribute(f"data-{name}") for name in ("path", "key"))
        value = rows[path]
        for step in key.split("."):
            value = value[int(step)] if isinstance(value, list) else value[step]
        assert by_id(browser, "value").text == f"{value:,}"
        assert by_id(browser, "label").text.startswith(f"{path} · {key}")
        assert by_id(browser, "command").text == f"archcli show {model} --json"


def test_a_command_is_copied_by_its_button_and_by_enter(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    stop = "#drawing svg [role=button]:not(.toggle)"
    browser.execute_script(f"document.querySelector('{stop}').focus()")
    press(browser, "ARROW_RIGHT", "ENTER")
    command = by_id(browser, "command").text
    assert shlex.split(command)[:1] == ["archcli"]
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    assert clipboard(browser) == command
    browser.execute_async_script("navigator.clipboard.writeText('').then(arguments[0])")
    by_id(browser, "copy-command").click()
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    assert clipboard(browser) == command


def test_the_arrows_go_along_the_drawing_and_from_box_to_box(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("deepseek-v3"))
    browser.execute_script("document.querySelector('#drawing svg [role=button]:not(.toggle)').focus()")
    boxes = []
    box = "const b = document.activeElement.closest('g[data-part], g[data-kind]');"
    for _ in range(7):
        press(browser, "ARROW_DOWN")
        boxes.append(browser.execute_script(f"{box} return b && (b.dataset.part ?? b.dataset.kind)"))
    assert [name for name in boxes if name] == ["layers.0", "layers.3", "A", "B", "C"]
    press(browser, "ARROW_UP")
    assert browser.execute_script(f"{box} return b?.dataset.part") == "C"
    stops = "return document.querySelectorAll('#drawing svg [tabindex=\"0\"]:not(.toggle)').length"
    assert browser.execute_script(stops) == 1


def test_find_marks_what_matches_and_enter_goes_on(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("deepseek-v3"))
    press(browser, "/", *"kv_a")
    count = int(by_id(browser, "matches").text.split()[0])
    assert count == len(browser.find_elements("css selector", ".marks .hit")) > 1
    press(browser, "ENTER")
    assert by_id(browser, "matches").text == f"1 of {count}"
    assert len(browser.find_elements("css selector", ".marks .at")) == 1
    assert by_id(browser, "label").text
    press(browser, *["ENTER"] * count)
    assert by_id(browser, "matches").text == f"1 of {count}"
    press(browser, "ESCAPE")
    assert browser.find_elements("css selector", ".marks .hit") == []


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("models", [*((model,) for model in MODELS), PAIR])
def test_folding_overprints_nothing_and_unfolding_restores(browser, pages, models):
    screen(browser, 1400)
    opened(browser, pages(*models))
    before, height = browser.execute_script(TEXTS), browser.execute_script(HEIGHT)
    last = """return Math.max(...[...document.querySelectorAll('g[data-part]')]
      .map((e) => e.getBoundingClientRect().top))"""
    lowest = browser.execute_script(last)
    by_id(browser, "fold").click()
    folded = browser.execute_script(TEXTS)
    assert len(folded) < len(before)
    # what stood below has moved up
    assert browser.execute_script(last) < lowest - 100
    assert browser.execute_script(HEIGHT) <= height
    by_id(browser, "fold").click()
    assert browser.execute_script(TEXTS) == before
    assert browser.execute_script(HEIGHT) == height
    rng, wrong = Random(str(models)), []  # noqa: S311
    toggles = browser.find_elements("css selector", ".toggle")
    for _ in range(8):
        browser.execute_script("arguments[0].dispatchEvent(new Event('click'))", rng.choice(toggles))
        texts = browser.execute_script(TEXTS)
        for i, (text, box) in enumerate(texts):
            near = (other for other, place in texts[:i] if overlap(shrunk(box, 2), shrunk(place, 2)))
            wrong += [(text, other) for other in near]
    assert wrong == []


def test_a_box_is_folded_by_the_keyboard(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    toggle = "document.querySelector('g[data-part=A] .toggle')"
    browser.execute_script(f"{toggle}.focus()")
    for expanded in ("false", "true"):
        press(browser, "ENTER")
        assert browser.execute_script(f"return {toggle}.ariaExpanded") == expanded


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("address", "within"),
    [
        ("part=C", "[data-part='C']"),
        ("part=layers.3", "[data-kind='layers.3']"),
        ("part=layers.0.attention.q_b_proj", "[data-part='A'] [data-path='layers.0.attention.q_b_proj']"),
    ],
)
def test_an_address_opens_a_part(browser, pages, address, within):
    screen(browser, 1400)
    opened(browser, pages("deepseek-v3"))
    by_id(browser, "fold").click()
    browser.execute_script("location.hash = arguments[0]", address)
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    script = """const target = document.querySelector(`#drawing ${arguments[0]}`).getBoundingClientRect();
      const frame = document.querySelector('.marks .at').getBoundingClientRect();
      return [target.top > 0 && target.top < innerHeight,
        Math.abs(frame.top - target.top) < 8 && Math.abs(frame.left - target.left) < 8]"""
    assert browser.execute_script(script, within) == [True, True]
    opened_box = browser.find_element("css selector", f"#drawing {within.split()[0]}")
    assert not opened_box.get_attribute("class")
    boxes = browser.find_elements("css selector", "#drawing :is(g[data-part], g[data-kind])")
    assert len(browser.find_elements("css selector", "#drawing .folded")) == len(boxes) - 1


def test_a_click_sets_the_address_that_opens_it(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    bar = browser.find_element("css selector", "g[data-part=A] rect[data-path]")
    browser.execute_script("arguments[0].dispatchEvent(new MouseEvent('click', {bubbles: true}))", bar)
    path = bar.get_attribute("data-path")
    assert browser.current_url.endswith(f"#part={path}")


def test_of_two_models_each_has_its_command_and_address(browser, pages):
    screen(browser, 1400)
    opened(browser, pages(*PAIR), "part=2.layers.0.attention.q_proj")
    assert by_id(browser, "command").text == f"archcli show {PAIR[1]} --json"
    assert not by_id(browser, "follow").is_displayed()


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("model", MODELS)
def test_each_step_shows_its_numbers_and_lights_what_runs(browser, pages, model):
    screen(browser, 1400)
    opened(browser, pages(model), "step=1")
    data = json.loads(by_id(browser, "data").get_attribute("textContent"))
    steps = [(stage, step) for stage in data["stages"] for step in stage["steps"]]
    for number, (stage, step) in enumerate(steps, 1):
        assert by_id(browser, "place").text == f"{number} of {len(steps)}"
        assert by_id(browser, "stage").text == stage["title"]
        shown = [
            cell.get_attribute("data-value") for cell in browser.find_elements("css selector", "#facts dd")
        ]
        exact = [amount for amount, _ in step["amounts"]]
        assert [value for value in shown if value] == [*exact[:2], *(it for it in exact[2:] if it != "0")]
        lit = browser.execute_script(LIT)
        if "end" in step:
            assert lit == {"part": [], "kind": [], "of": [], "end": [step["end"]]}
        elif "kind" in step:
            assert lit["of"] == lit["kind"] == [step["kind"]]
            inside = [
                it["letter"] for it in stage["steps"] if it.get("kind") == step["kind"] and "letter" in it
            ]
            assert lit["part"] == ([step["letter"]] if "letter" in step else sorted(set(inside)))
        else:
            assert not any(lit.values())
        commands = [code.text for code in browser.find_elements("css selector", "#commands code")]
        assert commands == [f"archcli {it.replace('{}', model)} --json" for it in stage["commands"]]
        press(browser, "ARROW_RIGHT")
    assert not by_id(browser, "next").is_enabled()
    press(browser, "ARROW_LEFT")
    assert by_id(browser, "place").text == f"{len(steps) - 1} of {len(steps)}"
    press(browser, "ESCAPE")
    assert not by_id(browser, "walk").is_displayed()
    assert said(browser) == []


def test_keys_are_told_and_leave_the_page_as_it_was(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    press(browser, "?")
    assert by_id(browser, "keys").is_displayed()
    press(browser, "t")
    assert not by_id(browser, "walk").is_displayed()
    press(browser, "ESCAPE")
    assert not by_id(browser, "keys").is_displayed()
    press(browser, "t")
    assert by_id(browser, "walk").is_displayed()


def test_the_copied_svg_is_the_drawing(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    by_id(browser, "fold").click()
    by_id(browser, "copy").click()
    browser.execute_async_script("setTimeout(arguments[0], 100)")
    copied, drawn = (
        ET.canonicalize(text, strip_text=True) for text in (clipboard(browser), archcli.draw("gpt2").svg())
    )
    assert copied == drawn


def test_the_saved_png_has_twice_the_size_and_the_colours_of_the_drawing(browser, pages, tmp_path):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.execute_cdp_cmd("Page.setDownloadBehavior", where)
    by_id(browser, "save").click()
    file = tmp_path / "gpt2.png"
    for _ in range(50):
        if file.exists():
            break
        browser.execute_async_script("setTimeout(arguments[0], 100)")
    png = file.read_bytes()
    root = ET.fromstring(archcli.draw("gpt2").svg())  # noqa: S314
    assert struct.unpack(">II", png[16:24]) == tuple(2 * int(root.get(side)) for side in ("width", "height"))
    script = """const image = new Image(), done = arguments[1];
      image.onload = () => {
        const canvas = new OffscreenCanvas(image.width, image.height), on = canvas.getContext('2d');
        on.drawImage(image, 0, 0);
        const all = on.getImageData(0, 0, image.width, image.height).data;
        let blue = 0;
        for (let i = 0; i < all.length; i += 4)
          blue += all[i] === 0 && all[i + 1] === 114 && all[i + 2] === 178;
        done(blue);
      };
      image.src = `data:image/png;base64,${arguments[0]}`;"""
    browser.get("about:blank")
    # attention's blue is #0072b2: the style of the SVG is in the picture
    assert browser.execute_async_script(script, base64.b64encode(png).decode()) > 1_000


def test_print_leaves_the_controls_out(browser, pages):
    screen(browser, 800, media="print")
    opened(browser, pages("gpt2"), "step=2")
    for name in ("bar", "detail", "commands", "back"):
        assert not by_id(browser, name).is_displayed()
    assert by_id(browser, "drawing").is_displayed()
    assert by_id(browser, "facts").is_displayed()
    screen(browser, 800)


def test_without_script_it_is_the_drawing_alone(browser, pages):
    screen(browser, 1400)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened(browser, pages("gpt2"))
        shown = [
            name
            for name in ("bar", "walk", "drawing", "detail", "keys")
            if by_id(browser, name).is_displayed()
        ]
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert shown == ["drawing"]
