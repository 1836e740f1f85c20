"""The page "Try it" as a reader uses it: its figures are those of the command that it shows."""

import json
import random
import shlex
import sys
import tarfile
from io import BytesIO
from pathlib import Path
from struct import pack

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from driving import Question, drop, lines_of, pose, program, settle, shown
from gguf_files.file import gguf
from gguf_files.tiny import LLAMA as GGUF_LLAMA
from gguf_files.tiny import TENSORS as GGUF_TENSORS
from tiny_model import TINY
from trying import BUILD, needs_page

pytestmark = needs_page

FILES = Path(__file__).parents[1] / "load" / "huggingface" / "real_files"
PRESETS = {
    "a hybrid": "qwen3-next-80b-a3b",
    "a mixture": "mixtral-8x7b",
    "an encoder-decoder": "t5-small",
    "latent attention": "deepseek-v3",
    "dense": "gpt2",
}
DROPPED = {
    "a multimodal wrapper": "llava-1.5-7b.json",
    "a quantized file": "llama-3.1-8b-instruct-awq-int4.json",
    "an encoder": "bert-base-uncased.json",
}
MODELS = [*PRESETS, *DROPPED, "a YAML of its own", "a GGUF file"]
TABS = ("size", "cache", "memory", "fit", "speed", "check", "formula", "drawing")
COMMANDS = dict(
    zip(TABS, ("params", "kvcache", "memory", "fit", "predict", "check", "explain", "draw"), strict=True)
)
VALUES = {
    "context": ("512", "4096", "8k", "32Ki"),
    "seq-len": ("128", "1024", "2Ki"),
    "batch-size": ("1", "2", "7"),
    "dtype": ("bf16", "fp32", "fp8", "q4_k_m"),
    "kv-dtype": ("bf16", "fp8", "q8_0"),
    "device": ("h100-sxm", "rtx-4090", "8xh100-sxm", "mi300x"),
    "memory": ("24GiB",),
    "depth": ("1", "2", "4"),
    "tp": ("1", "2"),
    "new": ("16",),
    "past": ("100",),
    "select": ("ATT", "FFN"),
    "ignore": ("HWD",),
    "optimizer": ("sgd", "muon"),
    "recompute": ("layer",),
    "tokens": ("1T",),
}
"""Values of the options that are no choices, right ones and wrong ones of some questions."""

OF_FORMULAS = {
    "params": ("steps", "approx"),
    "flops": ("steps", "phase", "batch-size", "seq-len", "mask"),
    "kvcache": ("steps", "context", "batch-size"),
}
N_QUESTIONS = 60


@pytest.fixture(scope="module")
def opened(page):
    """The browser that has opened the page. No test of this file may leave an error in its console."""
    page.get_log("browser")
    page.execute_script(KEEP_DRAWINGS)
    yield page
    severe = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
    assert not severe, severe
    fetched = page.execute_script(FETCHED)
    assert all(name.startswith((address(page), "blob:", "data:")) for name in fetched), fetched


@pytest.fixture
def ready(opened):
    """The page as it opens, with the first preset; Python stays loaded."""
    screen(opened, 1400, "light")
    go(opened, "model=gpt2&tab=size")
    return opened


def go(browser, question):
    """Write a question into the address, as a reader does."""
    browser.execute_script("location.hash = arguments[0]; document.body.focus()", question)
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    settle(browser)


def address(browser):
    return browser.current_url.partition("#")[0]


def screen(browser, width, scheme):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def file_of(model):
    """{name, content} of a model that is no preset."""
    if model in DROPPED:
        return {"name": DROPPED[model], "content": (FILES / DROPPED[model]).read_text()}
    if model == "a YAML of its own":
        return {"name": "model.yaml", "content": TINY, "pasted": True}
    return {"name": "tiny.gguf", "content": [*gguf(GGUF_LLAMA, GGUF_TENSORS)]}


def questions(options):
    """Questions of every tab in turn, with up to three options each."""
    draw = random.Random(31)  # noqa: S311 - a seed, no secret
    for i in range(N_QUESTIONS):
        tab, model = TABS[i % len(TABS)], MODELS[draw.randrange(len(MODELS))]
        asked = {
            it["name"]: it for it in options[tab] if it["choices"] or it["switch"] or it["name"] in VALUES
        }
        names = draw.sample(sorted(asked), min(draw.randrange(4), len(asked)))
        values = {name: value_of(asked[name], draw) for name in names}
        if tab == "formula":
            values = formula(draw, asked)
        elif tab in {"fit", "speed"}:
            values = {"device": "h100-sxm"} | values
        yield Question(PRESETS.get(model, ""), tab, values, None if model in PRESETS else file_of(model))


def formula(draw, asked):
    """Options of a formula; those of a pass belong to FLOPs, those of a cache to the cache."""
    quantity = draw.choice(sorted(OF_FORMULAS))
    names = draw.sample(OF_FORMULAS[quantity], draw.randrange(3))
    return {"quantity": quantity} | {name: value_of(asked[name], draw) for name in names}


def value_of(option, draw):
    return True if option["switch"] else draw.choice(option["choices"] or VALUES[option["name"]])


@pytest.fixture(scope="module")
def options(folder):
    """The options of each tab."""
    tabs = json.loads((folder / "try" / "questions.json").read_text())["tabs"]
    return {tab["id"]: [*tab["first"], *tab["more"]] for tab in tabs}


def place(question, folder):
    """Write the file of a question into a folder, as it lies beside the program in the page."""
    if question.file:
        content = question.file["content"]
        data = content.encode() if isinstance(content, str) else bytes(content)
        (folder / question.file["name"]).write_bytes(data)
    return folder


def difference(question, browser, folder, refused):
    """What the page shows beside what the command that it shows prints; None where they are equal."""
    pose(browser, question)
    page = shown(browser)
    words = shlex.split(page["command"])[1:]
    assert words[0] == COMMANDS[question.tab]
    form = [] if question.tab == "drawing" else ["--format", "md"]
    done = program([*words, *form], place(question, folder))
    if done.code > 1:
        refused.add(page["command"])
        said = "\n".join(line for line in done.err.splitlines() if not line.startswith("note: "))
        return None if page["trouble"] == said.strip() else (page["command"], page["trouble"], said)
    if question.tab == "drawing":
        drawn = browser.execute_async_script(DRAWING)
        return None if drawn == done.out else (page["command"], "another drawing")
    expected = lines_of(done.out)
    found = [line if isinstance(line, list) else line.replace("`", "") for line in page["lines"]]
    return None if found == expected else (page["command"], page["trouble"], found, expected)


FETCHED = "return performance.getEntriesByType('resource').map((it) => it.name)"
KEEP_DRAWINGS = """
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.made = blob; return make(blob); };
"""
DRAWING = "window.made.text().then(arguments[0])"


def test_every_tab_shows_the_figures_of_its_command(ready, options, tmp_path):
    posed = [*questions(options)]
    assert len({question.tab for question in posed}) == len(TABS)
    assert len({(it.model, it.file and it.file["name"]) for it in posed}) == len(MODELS)
    refused = set()
    wrong = [found for question in posed if (found := difference(question, ready, tmp_path, refused))]
    assert not wrong, f"{len(wrong)} of {len(posed)} differ; the first: {wrong[0]}"
    assert len(refused) < N_QUESTIONS / 4, refused


def test_a_link_gives_the_same_page_to_somebody_else(ready):
    config = (FILES / DROPPED["a quantized file"]).read_text()
    file = {"name": "config.json", "content": config, "pasted": True}
    pose(ready, Question("", "cache", {"context": "8k", "batch-size": "3"}, file))
    asked, link, window = shown(ready), ready.current_url, ready.current_window_handle
    assert link.startswith(f"{address(ready)}#file=config.json&data=")
    ready.switch_to.new_window("tab")
    try:
        ready.get(link)
        settle(ready)
        opened = shown(ready)
        fetched = ready.execute_script(FETCHED)
        assert ready.find_element(By.ID, "text").get_property("value") == config
    finally:
        ready.close()
        ready.switch_to.window(window)
    assert opened["lines"] == asked["lines"] != []
    assert opened["command"] == asked["command"] == "archcli kvcache config.json --context 8k --batch-size 3"
    assert fetched
    assert not [name for name in fetched if "data=" in name]


def test_back_and_forward_walk_through_the_questions(ready):
    walked = []
    for question in (
        Question("gpt2", "size"),
        Question("gpt2", "cache", {"context": "512"}),
        Question("t5-small", "cache", {"context": "512"}),
    ):
        pose(ready, question)
        walked.append((ready.current_url, shown(ready)))
    for step, (url, then) in [("back", walked[1]), ("back", walked[0]), ("forward", walked[1])]:
        getattr(ready, step)()
        ready.execute_async_script("setTimeout(arguments[0], 50)")
        settle(ready)
        now = shown(ready)
        assert (ready.current_url, now["command"], now["lines"]) == (url, then["command"], then["lines"])
    assert ready.find_element(By.ID, "preset").get_property("value") == "gpt2"
    assert ready.find_element(By.ID, "option-context").get_property("value") == "512"


def press(browser, *keys):
    """Press keys wherever the focus is: sent to a file field, they would be taken for the name of a file."""
    for key in keys:
        ActionChains(browser).send_keys(key).perform()


def tab_to(browser, name, most=40):
    """Press Tab until the element of that id has the focus, which can be seen."""
    for _ in range(most):
        press(browser, Keys.TAB)
        element = browser.switch_to.active_element
        if element.get_attribute("id") == name:
            assert element.value_of_css_property("outline-style") == "solid", name
            return
    raise AssertionError(f"Tab does not reach {name}")


def test_the_keyboard_alone_does_everything(ready):
    tab_to(ready, "preset")
    ActionChains(ready).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).perform()
    press(ready, "mixtral-8x7b")
    tab_to(ready, "tab-size")
    press(ready, Keys.ARROW_RIGHT, Keys.END, Keys.HOME, Keys.ARROW_LEFT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert ready.switch_to.active_element.get_attribute("id") == "tab-cache"
    press(ready, Keys.ENTER)
    settle(ready)
    tab_to(ready, "option-context")
    press(ready, "8k", Keys.ENTER)
    settle(ready)
    assert shown(ready)["command"] == "archcli kvcache mixtral-8x7b --context 8k"
    assert shown(ready)["lines"][0].startswith("mixtral-8x7b: kvcache, context 8,000")
    tab_to(ready, "command")
    tab_to(ready, "copy")
    for _ in range(20):
        press(ready, Keys.TAB)
        if ready.switch_to.active_element.text == "JSON":
            break
    press(ready, Keys.ENTER)
    ready.execute_async_script(UNTIL_JSON)
    said = json.loads(ready.find_element(By.ID, "json-text").get_property("textContent"))
    assert said == json.loads(program(["kvcache", "mixtral-8x7b", "-c", "8k", "--json"], ".").out)


UNTIL_JSON = """
const done = arguments[0];
const wait = () => document.getElementById("json-text").textContent ? done() : setTimeout(wait, 20);
wait();
"""


def test_the_skip_link_keeps_the_question(ready):
    before = ready.current_url
    ready.execute_script("document.querySelector('.skip').focus()")
    press(ready, Keys.ENTER)
    assert ready.switch_to.active_element.get_attribute("id") == "answer"
    assert ready.current_url == before


@pytest.fixture(scope="module")
def axe():
    """axe-core, at the version and sha512 of lock.json."""
    sys.path.insert(0, str(BUILD.parent))
    try:
        from build import UnavailableError, npm_package
    finally:
        sys.path.remove(str(BUILD.parent))
    try:
        packed = npm_package("axe-core")
    except UnavailableError as reason:
        pytest.skip(str(reason))
    with tarfile.open(fileobj=BytesIO(packed), mode="r:gz") as package:
        return package.extractfile("package/axe.min.js").read().decode()


VIOLATIONS = """
axe.run(document, {resultTypes: ["violations"]}).then((found) => arguments[0](
  found.violations.map(({id, nodes}) => [id, nodes.map(({html}) => html.slice(0, 120))])));
"""
LOOKED_AT = [
    Question("mixtral-8x7b", "size"),
    Question("gpt2", "speed", {"device": "h100-sxm"}),
    Question("gpt2", "drawing"),
    Question("gtp2", "cache"),
]


def test_axe_finds_nothing_at_any_width_in_light_and_dark(ready, axe):
    found = {}
    ready.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
    for question in LOOKED_AT:
        pose(ready, question)
        ready.execute_script("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
        for width in (400, 800, 1400):
            for scheme in ("light", "dark"):
                screen(ready, width, scheme)
                where = f"{question.tab} of {question.model}, {width} px, {scheme}"
                ready.execute_async_script("setTimeout(arguments[0], 200)")  # colours fade for 150 ms
                violations = ready.execute_async_script(VIOLATIONS)
                content, window = shown(ready)["scroll"]
                if violations or content > window:
                    found[where] = violations, content, window
    assert not found


ENDLESS = "a: &a [" + "1, " * 9 + "1]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [" + f"*{chr(97 + i)}, " * 9 + f"*{chr(97 + i)}]\n" for i in range(9)
)  # fmt: skip
HOSTILE = {
    "aliases.yaml": ENDLESS,
    "tag.yaml": "!!python/object/apply:os.system ['true']\n",
    "nan.json": '{"model_type": "llama", "hidden_size": NaN}',
    "utf16.json": [0xFF, 0xFE, 0x7B, 0x00],
    "damaged.gguf": [*b"GGUF\x03\0\0\0" + b"\xff" * 40],
    "short.gguf": [*b"GGUF\x03\0\0\0" + bytes(3)],
    "<img src=x onerror=alert(1)>.json": '{"model_type": "<img src=x onerror=alert(1)>"}',
    "too-large.yaml": TINY.replace("vocab_size: ", "vocab_size: 1" + "0" * 40),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_the_programs_error(name, ready, tmp_path):
    drop(ready, name, HOSTILE[name])
    found = shown(ready)
    place(Question("", "size", file={"name": name, "content": HOSTILE[name]}), tmp_path)
    done = program(shlex.split(found["command"])[1:], tmp_path)
    assert done.code == 2
    assert found["trouble"] == done.err.strip()
    assert not found["lines"]
    assert not ready.find_elements(By.CSS_SELECTOR, "img")


HUGE = 200 << 20


def test_a_text_of_200_mb_is_refused_unread(ready):
    drop(ready, "config.json", "{", HUGE)
    assert shown(ready)["trouble"].startswith("error: config.json has 200 MiB")
    assert shown(ready)["command"] == "archcli params gpt2"


def test_of_a_gguf_file_of_200_mb_the_header_alone_is_read(ready, tmp_path):
    header = gguf(GGUF_LLAMA, GGUF_TENSORS)
    drop(ready, "huge.gguf", [*header], HUGE)
    found = shown(ready)
    assert f"huge.gguf header of {len(header) / 1024:.1f} KiB of 200 MiB" in found["files"]
    (tmp_path / "huge.gguf").write_bytes(header)
    assert found["lines"] == lines_of(program(["params", "huge.gguf", "--format", "md"], tmp_path).out)
    assert "does not hold the file" in found["note"]


def test_a_safetensors_header_is_compared_with_the_model(ready, tmp_path):
    entries = json.dumps({"wte.weight": {"dtype": "F16", "shape": [8, 8], "data_offsets": [0, 128]}}).encode()
    header = pack("<Q", len(entries)) + entries
    drop(ready, "model.safetensors", [*header], HUGE)
    found = shown(ready)
    assert found["command"] == "archcli params gpt2 --against model.safetensors"
    (tmp_path / "model.safetensors").write_bytes(header)
    done = program([*shlex.split(found["command"])[1:], "--format", "md"], tmp_path)
    assert found["lines"] == lines_of(done.out)
    ready.find_element(By.CSS_SELECTOR, "#files button").click()
    settle(ready)
    assert shown(ready)["command"] == "archcli params gpt2"


def test_a_link_without_its_file_leaves_the_form(ready):
    for link, said in {
        "file=big.gguf&kept=0123&tab=cache": "error: the link names big.gguf, which is too large for a link",
        "file=config.json&data=AAAA&tab=cache": "error: the link is damaged: its config.json cannot be read",
    }.items():
        go(ready, link)
        assert shown(ready)["trouble"].startswith(said)
        assert ready.find_element(By.ID, "option-context").is_displayed()


def test_without_webassembly_there_is_a_line(opened):
    window, here = opened.current_window_handle, address(opened)
    opened.switch_to.new_window("tab")
    try:
        source = {"source": "delete window.WebAssembly"}
        opened.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)
        opened.get(here)
        settle(opened)
        assert shown(opened)["trouble"].startswith("This browser has no WebAssembly")
    finally:
        opened.close()
        opened.switch_to.window(window)
