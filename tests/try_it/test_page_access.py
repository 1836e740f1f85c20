"""The page "Try it" by the keyboard alone, and what axe finds in it."""

import json
import sys
import tarfile
from io import BytesIO

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from driving import Question, go, pose, program, screen, settle, shown
from trying import BUILD, needs_page

pytestmark = needs_page


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
    press(ready, Keys.ARROW_RIGHT, Keys.END, Keys.HOME, Keys.ARROW_LEFT, *[Keys.ARROW_RIGHT] * 3)
    assert ready.switch_to.active_element.get_attribute("id") == "tab-cache"
    press(ready, Keys.ENTER)
    settle(ready)
    tab_to(ready, "option-context")
    press(ready, "8k", Keys.ENTER)
    settle(ready)
    assert shown(ready)["command"] == "archcli kvcache mixtral-8x7b --context 8k"
    assert shown(ready)["lines"][0].startswith("mixtral-8x7b: 1.05 GB of cache for 8,000 tokens")
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


def test_an_address_is_the_whole_question(ready):
    """Options of the question before are no part of it."""
    pose(ready, Question("gpt2", "cache", {"device": "h100-sxm"}))
    assert shown(ready)["command"] == "archcli kvcache gpt2 --device h100-sxm"
    go(ready, "model=gpt2&tab=cache")
    assert shown(ready)["command"] == "archcli kvcache gpt2"


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


def test_a_long_command_leaves_room_for_the_answer(ready):
    go(ready, f"model={'x' * 3000}&tab=size")
    heights = "return ['command', 'copy'].map((id) => document.getElementById(id).offsetHeight)"
    command, button = ready.execute_script(heights)
    assert command <= 200
    assert button <= 40
