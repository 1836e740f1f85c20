"""The notebook of the tutorial is made of its pages, has the form of one, and runs from top to bottom."""

import json
import re
import shlex
import subprocess
import sys

import pytest

import notebook
from examples import is_shown

NOTEBOOK = json.loads(notebook.NOTEBOOK.read_text())
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
WITHOUT_FIXED_OUTPUT = {"verify", "profile"}


def printed_by(args):
    """What a person sees of a command, as a notebook shows it below the cell."""
    command = [sys.executable, "-m", "archcli", *args]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    ).stdout


def source(cell):
    return "".join(cell["source"])


def test_it_is_current(renew):
    if renew:
        notebook.NOTEBOOK.write_text(notebook.notebook())
    assert notebook.NOTEBOOK.read_text() == notebook.notebook(), "python release/notebook.py renews it"


def test_it_has_the_form_of_a_notebook():
    """nbformat 4.5: what Jupyter refuses a file without."""
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in NOTEBOOK["cells"]}) == len(NOTEBOOK["cells"])
    for cell in NOTEBOOK["cells"]:
        wanted = {"id", "cell_type", "metadata", "source"}
        assert cell.keys() == wanted | ({"execution_count", "outputs"} if cell in CODE else set())
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_it_has_the_four_parts_and_every_command_of_the_pages():
    text = "\n".join(source(cell) for cell in NOTEBOOK["cells"])
    assert re.findall(r"^# (\d)\. ", text, flags=re.MULTILINE) == [*"1234"]
    pages = [(notebook.TUTORIAL / f"{page}.md").read_text() for page in notebook.PAGES]
    shown = [line[2:] for page in pages for line in page.splitlines() if line.startswith("$ ")]
    assert [source(cell)[1:] for cell in CODE if source(cell).startswith("!")] == shown


@pytest.mark.long
def test_it_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = 0
    for cell in CODE:
        first, _, rest = source(cell).partition("\n")
        if first.startswith("%%writefile "):
            (tmp_path / first.split()[1]).write_text(rest)
        elif first.startswith("!"):
            verb, *args = shlex.split(first[1:])
            assert verb == "archcli"
            if args[0] not in WITHOUT_FIXED_OUTPUT:
                assert is_shown(printed_by(args), "".join(cell["outputs"][0]["text"])), first
        else:
            exec(compile(source(cell), "cell", "exec"), {})  # noqa: S102 # the tutorial's own Python
        ran += 1
    assert ran == len(CODE)
    assert (tmp_path / "llama.svg").read_text().startswith("<svg")
