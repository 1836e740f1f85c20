"""Drawings of all presets and of twenty pairs: what Chromium shows, and what the commands count."""

import pytest

from archcli.load.presets import presets
from covering import COVERING
from drawn.drawings import counted_faults, drawing, pairs, seen_faults

SEEN = [*((name,) for name in COVERING), *pairs()]


def named(models):
    return "+".join(models)


@pytest.mark.long
@pytest.mark.xdist_group("browser")
@pytest.mark.sample(1)
@pytest.mark.parametrize("models", SEEN, ids=named)
def test_a_drawing_is_read_in_any_font_size_and_scheme(browser, models):
    assert seen_faults(browser, drawing(*models)) == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("models", SEEN, ids=named)
def test_a_drawing_says_what_the_commands_count(models):
    assert counted_faults(drawing(*models), *models) == {}


@pytest.mark.sample(1)
@pytest.mark.parametrize("shown", ["flops", "bytes", "kv"])
@pytest.mark.parametrize("name", presets()[::9])
def test_what_else_is_shown_is_counted(name, shown):
    assert counted_faults(drawing(name, show=shown), name) == {}


LAYER = (
    "  - {{n_layers: 1, layer: {{kind: pre_norm, attention: {{kind: mha, n_heads: 16}},"
    " ffn: {{kind: mlp, d_ff: {}}}}}}}"
)
DIFFERENT = """name: different-layers
vocab_size: 32000
d_model: 1024
max_seq_len: 4096
norm: {{kind: rmsnorm, eps: 1e-5}}
embedding: {{tied: false}}
groups:
{}
"""


@pytest.mark.long
@pytest.mark.parametrize("n", [40, 130, pytest.param(900, marks=pytest.mark.long)])
def test_layers_that_all_differ_are_drawn(tmp_path, n):
    file = tmp_path / "different.yaml"
    file.write_text(DIFFERENT.format("\n".join(LAYER.format(1024 + 64 * i) for i in range(n))))
    assert counted_faults(drawing(str(file)), str(file)) == {}
