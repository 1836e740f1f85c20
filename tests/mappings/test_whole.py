"""Whole multimodal models are counted as their classes are, or it is said what is not counted."""

import json
from functools import cache
from pathlib import Path

import pytest

from mapped_whole import whole_answer
from mappings.regenerate_whole import configs, whole

WHOLE = json.loads((Path(__file__).parent / "whole.json").read_text())
LEAST = 0.6
"""The share of the types that are counted exactly."""


@cache
def answers():
    entries = configs()
    return {kind: whole_answer(entries[kind]["config"], theirs) for kind, theirs in WHOLE.items()}


def test_every_class_that_builds_is_asked():
    assert configs().keys() == WHOLE.keys()


@pytest.mark.long
def test_none_is_counted_wrongly():
    wrong = {kind: found for kind, found in answers().items() if found.verdict in ("wrong", "traceback")}
    assert wrong == {}


@pytest.mark.long
def test_each_part_that_is_not_counted_has_a_reason():
    assert [kind for kind, found in answers().items() if found.verdict == "lacks" and not found.what] == []


@pytest.mark.long
def test_the_share_that_is_exact():
    exact = [kind for kind, found in answers().items() if found.verdict == "exact"]
    assert len(exact) / len(WHOLE) >= LEAST


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", WHOLE)
def test_transformers_still_says_so(kind):
    assert whole(kind, configs()[kind]) == WHOLE[kind]
