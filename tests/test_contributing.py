"""The guide shows the house as it stands: its map is the tree, its examples are the code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE, LAYOUT, RECIPES = (
    (ROOT / page).read_text() for page in ("CONTRIBUTING.md", "docs/layout.md", "docs/recipes.md")
)
SHOWN = re.findall(r"^```py\n(.*?)^```$", RECIPES, flags=re.DOTALL | re.MULTILINE)
SHORT, MAP = (
    re.search(r"^```\n(archcli/.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)[1]
    for text in (GUIDE, LAYOUT)
)
MOST_WORDS = 1500


def mapped(text):
    """Every path of the map: indentation says what lies in what."""
    folders, paths = [], []
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [line.split()[0]]
        paths.append("".join(folders))
    return paths


def test_the_map_shows_every_package_and_nothing_else():
    packages = {f"{path.parent.relative_to(ROOT)}/" for path in (ROOT / "archcli").rglob("__init__.py")}
    shown = [path for path in mapped(MAP) if path.startswith("archcli/")]
    assert {path for path in shown if path.endswith("/")} == packages
    assert len(shown) == len(set(shown))


def test_the_guide_is_short_and_its_map_is_the_beginning_of_the_whole():
    assert len(GUIDE.split()) <= MOST_WORDS
    assert set(mapped(SHORT)) <= set(mapped(MAP))


def test_the_map_names_what_lies_beside_the_packages():
    modules = {f"archcli/{path.name}" for path in (ROOT / "archcli").glob("[a-z]*.py")}
    assert {path for path in mapped(MAP) if path.endswith(".py")} == modules
    assert all((ROOT / path).exists() for path in mapped(MAP))


def test_the_layer_shown_is_the_layer_tried():
    operation, mixer = SHOWN[:2]
    source = (ROOT / "tests" / "helpers" / "outsider_ssd.py").read_text()
    assert operation in source
    assert mixer in source
    assert (operation.count("class CausalConv(Op)"), mixer.count("class OutsiderSSD(Mixer)")) == (1, 1)


def test_the_family_shown_is_the_family_shipped():
    importer, record = SHOWN[2:4]
    assert importer in (ROOT / "archcli" / "load" / "huggingface" / "families" / "llama.py").read_text()
    assert importer.lstrip().startswith('"arcee": ')
    assert record in (ROOT / "tests" / "parity" / "families" / "dense.py").read_text()
    assert record.lstrip().startswith('"arcee": Family(')
    shown = re.search(r"a whole family\s\((\w+)\)", (ROOT / "docs" / "extending.md").read_text())[1]
    assert f'"{shown.lower()}": Family(' in record
    assert len((importer + record).splitlines()) <= 5


WALKED = """
import contextlib, io, sys

called = {}

def note(frame, event, _):
    place = frame.f_code.co_filename.rpartition("/archcli/")[2]
    called.setdefault(f"{place}:{frame.f_code.co_qualname}")

sys.setprofile(note)
from archcli.cli import main

with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    main()
sys.setprofile(None)
print("\\n".join(called))
"""
WALKS = {
    "params llama-3.1-8b": "# Follow one answer",
    "fit llama-3.1-70b 2xrtx-3090": "# A second walk",
}
"""The command of each walk, and how its part of the page begins."""


@pytest.mark.parametrize("line", WALKS)
def test_a_walk_names_functions_in_the_order_in_which_they_run(line):
    page = (ROOT / "docs" / "walk.md").read_text().partition(WALKS[line])[2].partition("\n# ")[0]
    named = re.findall(r"`([\w/]+\.py:[\w.]+)`", page)
    assert len(named) > 10
    run = subprocess.run(
        [sys.executable, "-c", WALKED, *line.split()], capture_output=True, text=True, check=True, timeout=300
    )
    order = {name: i for i, name in enumerate(run.stdout.splitlines())}
    assert [name for name in named if name not in order] == []
    places = [order[name] for name in dict.fromkeys(named)]
    assert [name for name, at, after in zip(named, places, places[1:], strict=False) if at > after] == []


@pytest.mark.long
def test_the_second_walk_carries_what_the_command_prints(archcli):
    page = (ROOT / "docs" / "walk.md").read_text().partition(WALKS["fit llama-3.1-70b 2xrtx-3090"])[2]
    totals = json.loads(archcli("fit", "llama-3.1-70b", "2xrtx-3090", "--json").stdout)["totals"]
    speed = f"{totals['tokens_per_s']['expected']:.1f}"
    for figure in (f"{totals['context']:,}", f"{totals['memory_bytes']:,}", speed):
        assert f"**{figure}**" in page
