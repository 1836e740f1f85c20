"""Drawings of all presets and of twenty pairs: what Chromium shows, and what the commands count."""

import pytest

from archcli.load.presets import presets
from drawn.drawings import counted_faults, drawing, pairs, seen_faults

SEEN = [*((name,) for name in presets()), *pairs()]


def named(models):
    return "+".join(models)


@pytest.mark.xdist_group("browser")
@pytest.mark.sample(6)
@pytest.mark.parametrize("models", SEEN, ids=named)
def test_a_drawing_is_read_in_any_font_size_and_scheme(browser, models):
    assert seen_faults(browser, drawing(*models)) == {}


@pytest.mark.sample(20)
@pytest.mark.parametrize("models", SEEN, ids=named)
def test_a_drawing_says_what_the_commands_count(models):
    assert counted_faults(drawing(*models), *models) == {}


@pytest.mark.sample(4)
@pytest.mark.parametrize("shown", ["flops", "bytes", "kv"])
@pytest.mark.parametrize("name", presets()[::9])
def test_what_else_is_shown_is_counted(name, shown):
    assert counted_faults(drawing(name, show=shown), name) == {}
