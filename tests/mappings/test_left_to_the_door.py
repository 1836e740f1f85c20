"""Types whose description was left out: the class of transformers answers what the description said.

`left_to_the_door.csv` has both answers of each type's default config, taken while both were there: the input
that the door made, or for three the one that was stated.
"""

import csv
import json
from pathlib import Path

import pytest

import archcli as library
from archcli.errors import UndescribedError
from mappings.test_mappings import CLASSES

FILE = Path(__file__).with_name("left_to_the_door.csv")
ROWS = {row["model_type"]: row for row in csv.DictReader(FILE.read_text(encoding="utf-8").splitlines())}
STATED = ("audio-spectrogram-transformer", "lasr_ctc", "omniasr_ctc")
"""Types whose inputs were stated."""


def config(row):
    """The default config.json of a type, with the class that was compared."""
    return {"model_type": row["model_type"], "architectures": [row["class"]]}


def test_both_answers_were_one():
    assert [row for row in ROWS.values() if row["params"] != row["described_params"]] == []
    assert [row for row in ROWS.values() if row["matmul_flops"] != row["described_matmul_flops"]] == []


def test_classes_of_images_have_the_figures_that_were_recorded():
    """By software of others alone: `figures.json` is transformers on meta and torch's counter."""
    recorded = {
        theirs["class"]: (str(theirs["params"]), str(theirs["flops"]))
        for name, theirs in CLASSES.items()
        if name.startswith("image") and theirs.get("class") in {row["class"] for row in ROWS.values()}
    }
    assert len(recorded) == 24
    for row in ROWS.values():
        assert recorded.get(row["class"], (row["params"], row["matmul_flops"])) == (
            row["params"],
            row["matmul_flops"],
        )


def test_none_of_them_is_described():
    for kind, row in ROWS.items():
        with pytest.raises(UndescribedError, match=f"'{kind}' is not supported"):
            library.load(config(row))


@pytest.mark.long
@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", ROWS)
def test_the_door_answers_what_the_description_said(kind, archcli, tmp_path):
    row = ROWS[kind]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config(row)))
    stated = ("--input", row["input"]) if kind in STATED else ()
    words = (("params", file), ("flops", file, *stated))
    params, flops = (archcli(*line, "--json") for line in words)
    assert json.loads(params.stdout)["totals"]["params"] == int(row["described_params"])
    assert json.loads(flops.stdout)["totals"]["matmul_flops"] == int(row["described_matmul_flops"])
