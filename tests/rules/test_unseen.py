"""Files no rule was written for, with one to three mistakes each.

Every mistake is found at its line, and no error or warning is false.
"""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "unseen"
# file: the mistakes, each a rule and what stands at the place it points to
MISTAKES = {
    "heron-7b.yaml": {("HWD001", "11000"), ("HWD004", "32001")},
    "swift-9b.yaml": {("ATT006", "8192"), ("STB002", "3.0")},
    "kite-moe.yaml": {("ATT008", "64"), ("MOE002", "64")},
    "wren-base.yaml": {("CON003", "attention"), ("NRM006", "1e-2")},
    "stork-large.yaml": {("ATT001", "5"), ("FFN002", "640")},
    "finch-small.yaml": {("CON007", "512"), ("CON001", "14"), ("NRM005", "false")},
    "crane-8x7b.yaml": {("MOE001", "9"), ("HWD001", "14337")},
    "grebe-13b.yaml": {("CON002", "NOPE"), ("TRN003", "true"), ("ATT005", "mha")},
    "llama.json": {("ATT001", "6"), ("FFN002", "1100"), ("HWD001", "1100")},
    "mistral.json": {("ATT006", "65536"), ("HWD002", "130")},
    "qwen3.json": {("POS005", "100"), ("SHP002", "280"), ("HWD004", "151937")},
}


def test_every_file_is_in_the_table():
    assert set(MISTAKES) == {path.name for path in FOLDER.iterdir()}


@pytest.mark.sample(7, whole=True)
@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_is_found_and_nothing_else_stops(cli, name):
    path = FOLDER / name
    lines = path.read_text().split("\n")
    rows = [row for row in json.loads(cli("check", path, "--json").out)["rows"] if row["severity"] != "info"]
    places = [row["where"] for row in rows]
    words = [lines[at["line"] - 1][at["column"] - 1 : at["end_column"] - 1] for at in places]
    assert {at["file"] for at in places} == {str(path)}
    assert {(row["code"], word) for row, word in zip(rows, words, strict=True)} == MISTAKES[name]
    assert len(rows) == len(MISTAKES[name])
