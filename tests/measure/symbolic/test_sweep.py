"""A sweep gives for each candidate what counting it alone gives, and refuses what 64 bits cannot hold."""

import sys

import numpy as np
import pytest

from archcli.errors import ArchError
from archcli.measure.passes import forward_pass
from archcli.modules import GLU, Group, MixtureOfExperts, substitute
from archcli.wings.shapes.symbolic import required
from archcli.wings.shapes.symbolic import sweep as module
from archcli.wings.shapes.symbolic.sweep import sweep
from small import attention, decoder, layer
from table import every_row

WIDE = {
    "d_model": [8, 16, 32],
    "d_ff": [5, 100, 12],
    "n_layers": [3, 1, 2],
    "n_heads": [2, 4, 8],
    "n_kv_heads": [1, 4, 2],
}
PATHS = {
    "d_model": ["d_model"],
    "d_ff": ["groups.0.layer.ffn.d_ff"],
    "n_layers": ["groups.0.n_layers"],
    "n_heads": ["groups.0.layer.attention.n_heads"],
    "n_kv_heads": ["groups.0.layer.attention.n_kv_heads"],
}


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize("unmasked", [False, True])
def test_each_candidate_as_if_it_were_alone(monkeypatch, chunk, unmasked):
    monkeypatch.setattr(module, "CHUNK", chunk)
    model = decoder(Group(n_layers=3, layer=layer(attention(window=6))))
    found = sweep(model, WIDE, batch_size=2, seq_len=9, unmasked=unmasked)
    for i in range(3):
        one = substitute(model, {path: WIDE[name][i] for name, paths in PATHS.items() for path in paths})
        counted = forward_pass(one, 2, 9)
        assert [int(column[i]) for column in found] == [counted.params(), *counted.flops(unmasked=unmasked)]


def test_experts_and_their_k_can_vary():
    moe = MixtureOfExperts(n_experts=6, top_k=2, expert=GLU(d_ff=5))
    model = decoder(Group(n_layers=3, layer=layer(ffn=moe)))
    found = sweep(model, {"n_experts": [6, 12], "top_k": [2, 3]}, seq_len=4)
    assert found.params[1] - found.params[0] == 3 * 6 * (3 * 8 * 5 + 8)
    assert found.matmul_flops[1] - found.matmul_flops[0] == 3 * 2 * 4 * (3 * 8 * 5 + 8 * 6)


@every_row(
    ("values", "said"),
    [
        ({"d_fff": [1]}, "d_fff: no size of this name; did you mean d_ff"),
        ({"n_layers": [1, 2]}, "groups.0.n_layers 1, groups.1.n_layers 2"),
        ({"d_ff": [1, 2], "d_model": [8]}, "arrays of one length"),
        ({"d_ff": []}, "whole numbers above 0"),
        ({}, "arrays of one length"),
        ({"d_ff": [0, 1]}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": [1.5]}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": [2**40], "groups.0.n_layers": [2**40]}, "too large for 64-bit counts"),
    ],
)
def test_what_cannot_be_swept_is_refused(values, said):
    model = decoder(Group(n_layers=1, layer=layer()), Group(n_layers=2, layer=layer()))
    with pytest.raises(ArchError, match=said):
        sweep(model, {name: np.array(value) for name, value in values.items()})


@pytest.mark.parametrize("widths", [[8, 1], [1, 8]])
def test_fewer_channels_than_heads_are_refused(widths):
    model = decoder(Group(n_layers=3, layer=layer(attention(head_dim=None))))
    with pytest.raises(ArchError, match="a size comes to 0, by which another is divided; leave out sizes"):
        sweep(model, {"d_model": widths})


def test_a_field_that_is_left_open_can_be_swept():
    model = decoder(Group(n_layers=3, layer=layer(attention(head_dim=None))))
    found = sweep(model, {"head_dim": [2, 4]}, seq_len=1)
    assert found.params[1] - found.params[0] == 3 * 2 * (2 * 8 * 4 + 2 * 8 * 2)


def test_a_sweep_prints_its_ranges():
    swept = sweep(decoder(Group(n_layers=1, layer=layer())), {"n_layers": [1, 2]}, seq_len=4)
    ranges = f"params {swept.params[0]:,} to {swept.params[1]:,}, matmul_flops "
    assert str(swept) == repr(swept)
    assert str(swept).startswith(f"<Sweep of 2 candidates: {ranges}")


@every_row(
    ("values", "message"),
    [
        ({"tied": [1]}, "tied: no size of this name"),
        ({"groups.0.layer.attention.bias": [1]}, "no size of this name"),
        ({"d_ff": [[1], [1, 2]]}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": [[1, 2]]}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": [True]}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": None}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": np.array([2**63], dtype=np.uint64)}, "d_ff: a sweep needs a list of whole numbers above 0"),
        ({"d_ff": [1], "groups.0.layer.ffn.d_ff": [2]}, "groups.0.layer.ffn.d_ff: two arrays for one size"),
    ],
)
def test_what_is_no_array_of_sizes_is_refused(values, message):
    with pytest.raises(ArchError, match=message):
        sweep(decoder(Group(n_layers=1, layer=layer())), values)


@pytest.mark.parametrize("package", ["numpy", "sympy"])
def test_a_package_that_is_missing_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ArchError, match=rf"needs {package}, which is not installed; pip install sympy numpy$"
    ):
        required(package)
