"""Many different layers: the work of `explain` grows with their number, not with its square."""

import sys

import pytest

import archcli
from archcli.api.asking.subject import subject
from archcli.render.plain import plain
from different_layers import different_layers

WORK = [("params", 10, 100), pytest.param("flops", 8, 32, marks=pytest.mark.long)]


@pytest.fixture
def model(tmp_path):
    """A function from a number of different layers to the model that their YAML gives."""

    def loaded(n):
        path = tmp_path / f"{n}.yaml"
        path.write_text(different_layers(n, windows=True))
        return subject(str(path), ()).model

    return loaded


def calls_of(function):
    """How many functions of Python it calls."""
    calls = 0

    def count(_, event, __):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.long
@pytest.mark.parametrize(("quantity", "few", "many"), WORK)
def test_work_grows_with_the_layers_and_not_with_their_square(model, quantity, few, many):
    calls = [calls_of(lambda n=n: plain(archcli.explain(model(n), quantity))) for n in (2, few, many)]
    assert calls[2] / calls[1] < 1.1 * many / few  # with a square in it, 1.4 times as much for parameters
