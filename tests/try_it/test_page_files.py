"""Files that the page "Try it" is given: hostile, huge, headers alone; and a browser that cannot run it."""

import json
import shlex
from struct import pack

import pytest
from selenium.webdriver.common.by import By

from driving import address, drop, go, lines_of, place, program, settle, shown
from gguf_files.file import gguf
from gguf_files.tiny import LLAMA as GGUF_LLAMA
from gguf_files.tiny import TENSORS as GGUF_TENSORS
from tiny_model import TINY
from trying import needs_page

pytestmark = needs_page

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
    place({"name": name, "content": HOSTILE[name]}, tmp_path)
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
