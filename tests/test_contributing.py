"""CONTRIBUTING shows the house as it stands: its map is the tree, its examples are the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHOWN = re.findall(
    r"^```python\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL | re.MULTILINE
)

MAP = re.search(
    r"^```\n(archcli/ .*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.DOTALL | re.MULTILINE
)[1]


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
    *_, importer, record = SHOWN
    assert importer in (ROOT / "archcli" / "load" / "huggingface" / "families" / "llama.py").read_text()
    assert importer.lstrip().startswith('"arcee": ')
    assert record in (ROOT / "tests" / "parity" / "families" / "dense.py").read_text()
    assert record.lstrip().startswith('"arcee": Family(')
    shown = re.search(r"a whole family\s\((\w+)\)", (ROOT / "docs" / "extending.md").read_text())[1]
    assert f'"{shown.lower()}": Family(' in record
    assert len((importer + record).splitlines()) <= 5
