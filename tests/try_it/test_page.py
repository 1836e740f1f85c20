"""The page "Try it" as a reader uses it: its figures are those of the command that it shows."""

import json
import random
import shlex
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By

from driving import FETCHED, Question, address, go, lines_of, place, pose, program, screen, settle, shown
from gguf_files.file import gguf
from gguf_files.tiny import LLAMA as GGUF_LLAMA
from gguf_files.tiny import TENSORS as GGUF_TENSORS
from tiny_model import TINY
from trying import needs_page

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
TABS = ("fit", "size", "cache", "memory", "speed", "work", "compare", "check", "formula", "drawing")
COMMANDS = dict(
    zip(
        TABS,
        ("fit", "params", "kvcache", "memory", "predict", "flops", "compare", "check", "explain", "draw"),
        strict=True,
    )
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
    "image": ("336x336",),
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
        elif tab == "compare":
            values = {"with": draw.choice(sorted(PRESETS.values()))} | values
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


def spelt(question):
    """The words of a question's options."""
    for name, value in question.values.items():
        yield from () if name in {"quantity", "with"} else (f"--{name}",)
        yield from () if value is True else (value,)


def difference(question, browser, folder, refused):
    """What the page shows beside what the command that it shows prints; None where they are equal."""
    pose(browser, question)
    page = shown(browser)
    words = shlex.split(page["command"])[1:]
    assert words[0] == COMMANDS[question.tab]
    assert sorted(spelt(question)) == sorted(words[2:] if question.tab != "drawing" else words[2:-2])
    form = [] if question.tab == "drawing" else ["--format", "md"]
    done = program([*words, *form], place(question.file, folder))
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


def test_it_opens_on_what_people_ask(ready):
    go(ready, "")
    assert shown(ready)["command"] == "archcli fit gpt2 --device h100-sxm"
    tabs = ready.execute_script(
        "return [...document.querySelectorAll('[role=tab]')].map((it) => it.dataset.tab)"
    )
    assert tabs == [*TABS, "report"]


def test_a_report_of_the_page_is_that_of_the_command(ready, tmp_path):
    pose(ready, Question("gpt2", "report", {"device": "rtx-4090", "title": "For <b>chat</b>"}))
    page = shown(ready)
    done = program(shlex.split(page["command"])[1:], tmp_path)
    assert "--title 'For <b>chat</b>'" in page["command"]
    assert ready.execute_async_script(DRAWING) == done.out
    saved = ready.find_element(By.CSS_SELECTOR, "#answer a")
    assert saved.get_attribute("download") == "gpt2.html"


def test_labels_are_words_and_no_help_offers_what_a_page_cannot_do(folder):
    tabs = json.loads((folder / "try" / "questions.json").read_text())["tabs"]
    options = [option for tab in tabs for option in (*tab["first"], *tab["more"])]
    assert [it["name"] for it in options if not it["label"][0].isalnum() or "-" in it["label"]] == []
    words = ("YAML file", "local", "--profile", "this machine")
    assert [it["help"] for it in options if any(word in it["help"] for word in words)] == []


def test_on_a_phone_the_answer_comes_into_view(ready):
    screen(ready, 400, "light")
    pose(ready, Question("llama-3.1-8b", "fit", {"device": "rtx-4090"}))
    ready.execute_script("scrollTo(0, 0); document.getElementById('form').requestSubmit()")
    ready.execute_async_script("setTimeout(arguments[0], 100)")
    settle(ready)
    top = ready.execute_script("return document.getElementById('answer').getBoundingClientRect().top")
    assert 0 <= top < 400
    screen(ready, 1400, "light")


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
