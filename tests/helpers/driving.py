"""The form of the page "Try it", filled as a reader fills it, and what the page then shows.

pose(browser, Question("gpt2", "cache", {"context": "8k"}))
shown(browser)["lines"]      # headings, cells and sentences of the answer
program(["kvcache", "gpt2", "--context", "8k", "--format", "md"], folder).out
"""

import io
import re
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from types import MappingProxyType
from typing import NamedTuple
from unittest import mock

from archcli.cli import main

SETTLE = """
const settled = (done) => {
  const busy = document.getElementById("panel").getAttribute("aria-busy");
  if (busy === "false") done(); else setTimeout(() => settled(done), 20);
};
"""
CARRY = """
const drop = (name, content, more) => {
  const parts = [typeof content === "string" ? content : Uint8Array.from(content), new Uint8Array(more)];
  const carried = new DataTransfer();
  carried.items.add(new File(parts, name));
  const how = {dataTransfer: carried, bubbles: true, cancelable: true};
  for (const kind of ["dragenter", "dragover", "drop"])
    document.body.dispatchEvent(new DragEvent(kind, how));
};
"""
# files come by a drop, texts into the field; the events of one script are one question, the last
POSE = (
    SETTLE
    + CARRY
    + """
const [model, file, tab, values, done] = arguments;
const change = (control, value) => {
  if (control.type === "checkbox") control.checked = value; else control.value = value;
  control.dispatchEvent(new Event("change", {bubbles: true}));
};
const ask = () => {
  document.getElementById(`tab-${tab}`).click();
  for (const control of document.querySelectorAll("#form input, #form select"))
    change(control, values[control.id.replace("option-", "")] ?? (control.type === "checkbox" ? false : ""));
  settled(done);
};
if (file?.pasted) change(document.getElementById("text"), file.content);
else if (file) drop(file.name, file.content, 0);
else change(document.getElementById("preset"), model);
settled(ask);
"""
)
SHOWN = """
const text = (id) => document.getElementById(id).textContent;
const lines = [...document.querySelectorAll("#answer h2, #answer h3, #answer p, #answer tr")];
return {
  command: text("command"), status: text("status"), note: text("link-note"), files: text("files"),
  trouble: document.querySelector("#trouble pre")?.textContent ?? "",
  lines: lines.map((line) => line.cells ? [...line.cells].map((cell) => cell.textContent) : line.textContent),
  tab: document.querySelector('[role="tab"][aria-selected="true"]')?.textContent,
  scroll: [document.documentElement.scrollWidth, innerWidth],
};
"""
FETCHED = "return performance.getEntriesByType('resource').map((it) => it.name)"
KEEP_DRAWINGS = """
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.made = blob; return make(blob); };
"""
"""The last picture that the page has made, as `made`: its policy lets no script fetch it."""

ESCAPED = re.compile(r"\\([\\`*_\[\]<>|#])")
RULE = re.compile(r"\|( -+:? \|)+")


class Question(NamedTuple):
    """A preset, or a file as {name, content, pasted}; a tab; values of its options by name."""

    model: str
    tab: str
    values: Mapping = MappingProxyType({})
    file: dict | None = None


class Done(NamedTuple):
    code: int
    out: str
    err: str


def settle(browser):
    """Wait until the page has answered."""
    browser.execute_async_script(SETTLE + "settled(arguments[0]);")


def pose(browser, question):
    """Fill the form, and wait for the answer."""
    browser.execute_async_script(POSE, question.model, question.file, question.tab, dict(question.values))


def drop(browser, name, content, more=0):
    """Drop a file of this text or these bytes and `more` zeros, and wait for the answer."""
    browser.execute_script(CARRY + "drop(...arguments);", name, content, more)
    settle(browser)


def shown(browser):
    """What the page shows: its command, answer, error lines and status."""
    return browser.execute_script(SHOWN)


def go(browser, question):
    """Write a question into the address, as a reader does."""
    browser.execute_script("location.hash = arguments[0]; document.body.focus()", question)
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    settle(browser)


def address(browser):
    """The address of the page without its question."""
    return browser.current_url.partition("#")[0]


def screen(browser, width, scheme):
    """Show the page on a screen so wide, light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def place(file, folder):
    """Write a file of a question into a folder, as it lies beside the program in the page."""
    if file:
        content = file["content"]
        data = content.encode() if isinstance(content, str) else bytes(content)
        (folder / file["name"]).write_bytes(data)
    return folder


def program(words, folder):
    """What `archcli WORDS` does in a folder: exit code, standard output and error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    argv = mock.patch.object(sys, "argv", ["archcli", *words])
    code = 0
    with chdir(folder), argv, redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return Done(code, *(_text(stream) for stream in (out, err)))


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()


def lines_of(markdown):
    """Headings, cells and sentences of a report in Markdown, read apart from the page's own reading."""
    read = [_line(line) for line in markdown.splitlines() if line and not RULE.fullmatch(line)]
    return [line for line in read if not isinstance(line, list) or any(line)]


def _line(line):
    if line.startswith("|"):
        cells = re.split(r"(?<!\\)\|", line)[1:-1]
        return [_plain(re.sub(r"^\*\*(.*)\*\*$", r"\1", cell.strip())) for cell in cells]
    return _plain(line.removeprefix("### ")).replace("`", "")


def _plain(text):
    return ESCAPED.sub(r"\1", text)
