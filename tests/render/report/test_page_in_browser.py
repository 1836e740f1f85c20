"""The page of a report in a real browser: Debian's chromium, headless.

Random settings give the JSON of the commands; the keyboard reaches every field; nothing is said on the
console; at the widths of a phone, a tablet and a desktop the page does not scroll sideways, and text has
12.5 px.
"""

import shutil
from itertools import pairwise
from random import Random

import pytest

import archcli
from archcli.errors import ArchError
from archcli.measure.flops import count_flops
from archcli.measure.kvcache.kvcache import count_kv_cache
from archcli.measure.params import count_params
from archcli.modules.spec.request import Request
from browsing import overlap, shrunk
from closing import engine, random_changes

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="no chromium (apt: chromium chromium-driver)"),
]
MODELS = (
    *("deepseek-v3", "gpt-oss-20b", "gemma-3-4b", "t5-base", "whisper-large-v3"),
    *("qwen3-next-80b-a3b", "jamba-1.5-mini", "zamba2-1.2b", "longcat-flash", "llama-4-scout"),
)
SETTINGS = 20
FIGURES = """
return Object.fromEntries([...document.querySelectorAll('.key')]
  .map((e) => [e.dataset.figure, e.dataset.value]));
"""
REFUSED = "return !document.getElementById('refusal').hidden;"


@pytest.fixture(scope="module")
def browser():
    """A headless chromium that keeps what pages say on the console."""
    selenium = pytest.importorskip("selenium.webdriver", reason="no selenium: it is in the extra `dev`")
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The file of a page on models, written once."""
    folder, written = tmp_path_factory.mktemp("pages"), {}

    def page(*models):
        if models not in written:
            file = folder / f"{'-'.join(models)}.html"
            written[models] = archcli.report(*models, device=("h100-sxm",)).save(file)
        return written[models]

    return page


def screen(browser, width, scheme="light", media=""):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features, "media": media})


def opened(browser, file, question=""):
    """The page at a question, loaded anew."""
    browser.get("about:blank")
    browser.get(f"{file.as_uri()}#{question}")


def said(browser):
    """What the page has said on the console since this was last asked."""
    return [entry["message"] for entry in browser.get_log("browser")]


def headline(model, sizes):
    """The key figures as the commands have them."""
    batch_size, seq_len, context = (sizes[name] for name in ("batch_size", "seq_len", "context"))
    params = count_params(model).totals
    flops = count_flops(model, Request("forward", batch_size, seq_len)).totals
    figures = {"params": params["params"], "active": params["active_params"], "flops": flops["matmul_flops"]}
    if model.caches:
        decode = count_flops(model, Request("decode", batch_size, 1, context - 1)).totals
        figures["decode"] = decode["matmul_flops"]
        figures["cache"] = count_kv_cache(model, context, batch_size, sizes["dtype"]).totals["bytes"]
    return {name: str(value) for name, value in figures.items()}


@pytest.mark.parametrize("name", MODELS)
def test_random_settings_give_the_json_of_the_commands(browser, pages, name):
    known, rng, wrong = engine(name), Random(f"page {name}"), []  # noqa: S311
    screen(browser, 1400)
    opened(browser, pages(name))
    for _ in range(SETTINGS):
        changes = random_changes(known, rng)
        sizes = {"batch_size": rng.randint(1, 9), "seq_len": rng.randint(1, 9_000)}
        sizes |= {"context": rng.choice([rng.randint(2, 300_000), rng.randint(2, 10**16)])}
        sizes |= {"dtype": rng.choice(["bf16", "fp8", "q8_0"])}
        asked = [f"{size.name}={value}" for size, value in changes.items()]
        asked += [f"{'cache' if key == 'dtype' else key}={value}" for key, value in sizes.items()]
        browser.execute_script("location.hash = arguments[0]", "&".join(asked))
        browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        texts = [text for size, value in changes.items() for text in size.overrides(value)]
        try:
            expected = headline(known.load(texts), sizes)
        except ArchError:
            wrong += [] if browser.execute_script(REFUSED) else [(asked, "is not refused")]
            continue
        figures = browser.execute_script(FIGURES)
        wrong += [(asked, figures, expected)] if figures != expected else []
    assert wrong == []
    assert said(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1400])
@pytest.mark.parametrize(
    "models", [("gpt2",), ("deepseek-v3",), ("gpt2", "llama-3.1-8b", "mamba-130m", "t5-base")]
)
def test_no_page_scrolls_sideways_and_its_text_is_legible(browser, pages, models, width, scheme):
    screen(browser, width, scheme)
    opened(browser, pages(*models))
    shown = browser.execute_script("""
      const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
      const read = (svg) => [...svg.querySelectorAll('text')].map((e) => ({text: e.textContent, box: box(e),
        size: getComputedStyle(e).fontSize, svg: box(svg)}));
      const texts = [...document.querySelectorAll('.charts svg')].map(read);
      return {page: [document.documentElement.scrollWidth, innerWidth], texts};
    """)
    assert shown["page"][0] <= shown["page"][1]
    wrong = []
    for texts in shown["texts"]:
        for i, text in enumerate(texts):
            wrong += [text["text"]] if text["size"] != "12.5px" else []
            left, _, right, _ = text["box"]
            wrong += [text["text"]] if left < text["svg"][0] - 1 or right > text["svg"][2] + 1 else []
            others = [other for other in texts[:i] if overlap(shrunk(other["box"]), shrunk(text["box"]))]
            wrong += [(text["text"], other["text"]) for other in others]
    assert wrong == []
    assert said(browser) == []


def test_a_page_loads_nothing_and_is_silent(browser, pages):
    opened(browser, pages("gpt2"))
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert loaded == []
    assert said(browser) == []


def keys():
    from selenium.webdriver.common.keys import Keys

    return Keys


def field(browser, name):
    return browser.find_element("id", f"input-{name}")


def typed(browser, name, text):
    from selenium.webdriver.common.action_chains import ActionChains

    box, key = field(browser, name), keys()
    box.click()
    select_all = ActionChains(browser).key_down(key.CONTROL).send_keys("a").key_up(key.CONTROL)
    select_all.send_keys(text).perform()
    return box


def test_every_field_has_a_label_and_is_reached_by_the_keyboard(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    fields = "return [...document.querySelectorAll('input, select')]"
    assert browser.execute_script(f"{fields}.filter((e) => !e.labels.length).length") == 0
    wanted = set(browser.execute_script(f"{fields}.map((e) => e.id)"))
    body, reached = browser.find_element("tag name", "body"), set()
    for _ in range(len(wanted) + 6):
        body.send_keys(keys().TAB)
        body = browser.switch_to.active_element
        reached.add(body.get_attribute("id"))
    assert wanted <= reached


def test_figures_follow_what_is_typed_and_the_address_keeps_it(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    before = browser.execute_script(FIGURES)
    box = typed(browser, "d_ff", "4,096")
    after = browser.execute_script(FIGURES)
    # of each layer a wider matrix up, with its bias, and one down
    assert int(after["params"]) - int(before["params"]) == 12 * (2 * 768 + 1) * (4096 - 3072)
    assert "changed" in box.get_attribute("class")
    assert browser.find_element("id", "input-d_ff-note").text == "was 3,072"
    box.send_keys(keys().TAB)
    assert browser.current_url.endswith("#d_ff=4096")
    assert "--set d_ff=4096" in browser.find_element("id", "same").text
    browser.back()
    assert browser.execute_script(FIGURES) == before
    browser.forward()
    assert browser.execute_script(FIGURES) == after
    browser.find_element("id", "reset").click()
    assert browser.execute_script(FIGURES) == before
    assert "#" not in browser.current_url


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("d_ff", "many", "a whole number, at least 1"),
        ("context", "-3", "a whole number, at least 2"),
        ("n_heads", "7", "n_heads 7 does not divide d_model 768"),
    ],
)
def test_what_is_no_model_is_marked_and_the_figures_stay(browser, pages, name, text, note):
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    before = browser.execute_script(FIGURES)
    box = typed(browser, name, text)
    assert box.get_attribute("aria-invalid") == "true"
    assert browser.find_element("id", f"input-{name}-note").text == note
    assert browser.execute_script(FIGURES) == before
    assert said(browser) == []


def test_an_address_that_no_model_can_answer_shows_the_model(browser, pages):
    opened(browser, pages("gpt2"), "n_heads=7&context=<b>")
    assert browser.execute_script(FIGURES)["params"] == str(archcli.params("gpt2").totals["params"])
    assert said(browser) == []


def test_inputs_are_left_out_in_print(browser, pages):
    screen(browser, 800, media="print")
    opened(browser, pages("gpt2"))
    assert not browser.find_element("tag name", "aside").is_displayed()
    assert browser.find_element("id", "keys").is_displayed()
    adjust = "return getComputedStyle(document.querySelector('.legend i')).printColorAdjust"
    assert browser.execute_script(adjust) == "exact"
    screen(browser, 800)


def rows(browser):
    return browser.execute_script(
        """return [...document.querySelectorAll('#fit tbody tr')]
             .map((row) => [...row.cells].map((cell) => cell.textContent))"""
    )


def test_format_engine_device_and_context_are_asked_in_the_page(browser, pages):
    screen(browser, 1400)
    opened(browser, pages("llama-3.1-8b"), "weights=q4_k_m&tokens=32768&engine=llamacpp")
    totals = archcli.fit("llama-3.1-8b", "h100-sxm", dtype="q4_k_m", context=32768, engine="llamacpp").totals
    weights = archcli.params("llama-3.1-8b", dtype="q4_k_m").totals["bytes"]
    cache = archcli.kvcache("llama-3.1-8b", context=131_072).totals["bytes"]
    expected = f"{totals['tokens_per_s']['expected']:.0f}"
    [row] = rows(browser)
    # 131,072 tokens are the page's context, which the cache of the last column follows
    needed = f"{(weights + cache) / 2**30:.1f} GiB"
    assert row == ["h100-sxm", "llama.cpp", row[2], "q4_k_m", f"{totals['context']:,}", expected, needed]
    command = "archcli fit llama-3.1-8b --device h100-sxm --engine llamacpp --dtype q4_k_m --context 32768"
    assert command in browser.find_element("css selector", "#commands pre").text
    browser.execute_script("location.hash = 'n_kv_heads=4&weights=q4_k_m'")
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert rows(browser)[0][-1] == "–"  # bytes of other sizes are known in bf16 alone
    assert said(browser) == []


@pytest.mark.parametrize("models", [("gpt2",), ("gpt2", "llama-3.1-8b")])
def test_headings_go_down_by_one(browser, pages, models):
    opened(browser, pages(*models))
    levels = browser.execute_script(
        """return [...document.querySelectorAll('h1, h2, h3, h4')]
             .filter((e) => e.checkVisibility()).map((e) => +e.tagName[1])"""
    )
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_on_a_phone_the_answer_stands_before_the_inputs_and_a_drawing_says_that_it_scrolls(browser, pages):
    screen(browser, 400)
    opened(browser, pages("gpt2"))
    tops = browser.execute_script(
        """return ['keys', 'inputs', 'drawing']
             .map((id) => document.getElementById(id).getBoundingClientRect().top)"""
    )
    assert tops == sorted(tops)
    assert tops[0] < 450
    scroll = "document.querySelector('#drawing .scroll')"
    said_so = browser.execute_script(f"return getComputedStyle({scroll}, '::before').content")
    assert "Scrolls sideways" in said_so
    screen(browser, 1400)
    opened(browser, pages("gpt2"))
    assert browser.execute_script(f"return getComputedStyle({scroll}, '::before').content") == "none"


def test_ticks_are_round_and_an_axis_by_powers_says_so(browser, pages):
    screen(browser, 1400)
    for models in (("gpt2",), ("gpt2", "llama-3.1-8b")):
        opened(browser, pages(*models))
        texts = browser.execute_script(
            "return [...document.querySelectorAll('#flops text')].map((e) => e.textContent)"
        )
        ticks = [float(text.split()[0]) for text in texts if text.endswith("FLOP")]
        assert len(ticks) >= 3
        steps = {tick % 1 for tick in ticks} if len(models) == 1 else {f"{tick:e}"[:3] for tick in ticks}
        assert steps <= ({0.0, 0.5, 0.25} if len(models) == 1 else {"1.0", "2.0", "5.0"})
        assert any("log ax" in text for text in texts)


def test_the_drawing_follows(browser, pages):
    screen(browser, 1400)
    read = """return [...document.querySelectorAll('#drawing [data-key="params"][data-path=""]')]
      .map((e) => [e.dataset.value, e.textContent])"""
    opened(browser, pages("gpt2"), "d_ff=4096")
    drawn, counted = browser.execute_script(read), browser.execute_script(FIGURES)
    assert drawn
    assert {value for value, _ in drawn} == {counted["params"]}


def test_a_question_about_the_second_of_two_models_changes_that_one(browser, pages):
    screen(browser, 1400)
    read = (
        """return [...document.querySelectorAll('.key[data-figure="params"]')].map((e) => e.dataset.value)"""
    )
    opened(browser, pages("gpt2", "llama-3.1-8b"), "2.n_kv_heads=4")
    changed = archcli.load("llama-3.1-8b", ["n_kv_heads=4"])
    assert browser.execute_script(read) == [
        str(archcli.params(model).totals["params"]) for model in ("gpt2", changed)
    ]
    assert "--set n_kv_heads=4" in browser.find_element("id", "same").text
    assert said(browser) == []
