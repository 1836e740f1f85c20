"""What the page's worker runs in Python, here without a browser: answers, errors, failures of Python."""

import json
import subprocess
import sys

import pytest

from trying import BUILD

TRY = """
import json, os, sys
sys.path.insert(0, {page!r})
import answer
{before}
os.mkdir("model")
print(json.dumps([answer.answer({argv!r}, os.path.abspath("model")), os.path.exists("model")]))
"""
RAISES = "def ask(argv):\n    raise {}\nanswer.ask = ask"


def answered(folder, argv, before=""):
    """(kind, text) in a process of its own; the folder of the question is gone."""
    script = TRY.format(page=str(BUILD.parent), argv=argv, before=before)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True, cwd=folder
    )
    told, is_there = json.loads(done.stdout.splitlines()[-1])
    assert not is_there
    return told["kind"], told["text"]


@pytest.mark.long
def test_a_report_is_its_json(tmp_path):
    kind, text = answered(tmp_path, ["params", "gpt2"])
    assert (kind, json.loads(text)["totals"]["params"]) == ("text", 124_439_808)


@pytest.mark.long
def test_a_wrong_question_is_the_programs_error(tmp_path):
    kind, text = answered(tmp_path, ["params", "gpt-2x"])
    assert (kind, text.splitlines()[0]) == ("error", "error: no file or preset 'gpt-2x'")


@pytest.mark.long
def test_a_package_that_is_not_there_is_asked_for(tmp_path):
    first = "sys.meta_path.insert(0, answer.Later())"  # hides the sympy that is installed here
    assert answered(tmp_path, ["explain", "gpt2"], first) == ("needs", "sympy")


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("error", ["MemoryError()", "RecursionError('deep')"])
def test_more_than_the_page_holds_is_a_line(tmp_path, error):
    kind, text = answered(tmp_path, ["params", "gpt2"], RAISES.format(error))
    assert (kind, text) == ("lost", "a model that this page cannot hold; archcli on your computer can")


def test_an_error_of_another_kind_is_a_line(tmp_path):
    kind, text = answered(tmp_path, ["params", "gpt2"], RAISES.format("KeyError('a\\nb')"))
    assert (kind, text) == ("error", "archcli failed inside: KeyError: 'a\\nb'; please report it")


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("argv", [["fit", "gpt2", "--device", "local"], ["fit", "gpt2", "--device=local"]])
def test_this_device_is_refused_with_what_can_be_asked(tmp_path, argv):
    kind, text = answered(tmp_path, argv)
    assert (kind, "choose a device by its name" in text) == ("error", True)


def test_no_refusal_says_to_install_what_a_page_cannot(tmp_path):
    first = "sys.modules['numpy'] = None"
    kind, text = answered(tmp_path, ["sweep", "gpt2", "--vary", "d_ff=1024..4096:1024"], first)
    assert (kind, "numpy" in text, "pip" in text) == ("error", True, False)
