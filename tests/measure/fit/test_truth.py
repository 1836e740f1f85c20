"""Answers of `archcli fit` on random models and devices are those of `memory` and `predict`."""

import pytest

from fit_asked import agreement, questions

A_CASE = 2
"""Questions of a case."""


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(250))
def test_fit_says_what_memory_and_predict_say(seed):
    wrong = {str(question): [*agreement(question)] for question in questions(seed, A_CASE)}
    assert {question: words for question, words in wrong.items() if words} == {}
