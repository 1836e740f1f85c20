"""Every type of transformers' mappings is answered as its class does, or refused with a listed reason."""

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from mapped import answer
from mappings.set_aside import IMAGES, LATER, SET_ASIDE
from table import sampled_rows

FIGURES = Path(__file__).parent / "figures.json"
CLASSES = json.loads(FIGURES.read_text())["classes"]
BUILT = [name for name, theirs in CLASSES.items() if "config" in theirs]
LEFT = {line.partition(",")[0] for line in FIGURES.with_name("left_to_the_door.csv").read_text().splitlines()}
"""Types that the class of transformers answers, as the description did: `test_left_to_the_door.py`."""
TOKENS = 128
IMAGE_MAPPINGS = ("image", "image-classification")
OF_IMAGES = 0.86
LEAST = {"causal": 0.955, "masked": 0.82, "sequence-to-sequence": 0.86, "image-text": 0.85}


UNTIED = {"published/mt5-base": 250112 * 768, "published/umt5-base": 256384 * 768}
"""Models of T5's kind whose file unties the head, as their checkpoints do: the class ties it all the same."""


@cache
def verdict(name):
    theirs = {**CLASSES[name], "params": CLASSES[name]["params"] + UNTIED.get(name, 0)}
    return answer(theirs["config"], theirs, TOKENS)


@sampled_rows("name", BUILT, 15, lots=8)
def test_a_class_is_answered_exactly_or_set_aside(name):
    found = verdict(name)
    refused = name in SET_ASIDE | LATER | IMAGES or name.split("/")[1] in LEFT
    assert found.verdict == ("refused" if refused else "exact"), found.what


@pytest.mark.parametrize("mapping", LEAST)
def test_the_share_of_each_mapping_that_is_answered(mapping):
    counts = Counter(
        name not in SET_ASIDE for name in BUILT if name.startswith(f"{mapping}/") and name not in LATER
    )
    assert counts[True] / counts.total() >= LEAST[mapping]


def test_the_share_of_classes_of_images_that_are_answered():
    counts = Counter(name not in IMAGES for name in BUILT if name.split("/")[0] in IMAGE_MAPPINGS)
    assert counts[True] / counts.total() >= OF_IMAGES


def test_what_is_set_aside_builds():
    assert {*SET_ASIDE, *LATER, *IMAGES} <= {*BUILT}
    assert not SET_ASIDE.keys() & LATER.keys()
