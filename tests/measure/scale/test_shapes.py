"""Scaled shapes: families as they were published, ratios that stay, alignment, and what points at layers."""

import pytest

from archcli.errors import ArchError
from archcli.load import load
from archcli.measure.params import count_params
from archcli.wings.shapes.scale.fields import (
    depths_near,
    divisor_near,
    group_depths,
    moved_references,
    nearest,
    shared_unit,
    unit_of,
)
from archcli.wings.shapes.scale.search import aspect_growth, ranked
from archcli.wings.shapes.scale.shape import BaseShape
from covering import COVERING

HYBRIDS = ["jamba-1.5-mini", "gemma-3-12b", "nemotron-h-8b", "zamba2-1.2b", "gemma-3n-e2b", "gemma-4-e2b"]
WIDE = ["deepseek-v3", "qwen3-next-80b-a3b", "t5-large", "mixtral-8x7b", "mamba2-2.7b", "recurrentgemma-2b"]


def best(name, params, keep=()):
    return ranked(BaseShape(load(name), keep), round(params))[0].shape


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("layers", "width", "params"),
    # Brown et al. 2020, arXiv:2005.14165, table 2.1; its 13B states 5,140, which no head of 128 divides
    [(12, 768, 125e6), (24, 2048, 1.3e9), (32, 4096, 6.7e9), (40, 5120, 13.0e9)],
)
def test_gpt3_scaled_down_is_the_gpt3_of_table_2_1(layers, width, params):
    shape = best("gpt3-175b", params)
    assert (shape.n_layers, shape.d_model) == (layers, width)
    assert shape.params == pytest.approx(params, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize(
    ("base", "params", "published"),
    [
        # arXiv:2407.21783, table 3: layers, d_model, d_ff, heads
        ("llama-3.1-8b", 70.55e9, (80, 8192, 28672, 64)),
        ("llama-3.1-70b", 8.03e9, (32, 4096, 14336, 32)),
        ("llama-3.1-8b", 405.85e9, (126, 16384, 53248, 128)),
        # arXiv:2307.09288: Llama 2 of 13B
        ("llama-2-7b", 13.02e9, (40, 5120, 13824, 40)),
    ],
)
def test_llama_scaled_is_near_the_published_llama(base, params, published):
    # no family keeps its ratios to the letter: within a sixth of the layers, 10% of widths, 1% of the size
    shape = best(base, params)
    layers, width, d_ff, heads = published
    found = {path.rsplit(".", 1)[-1]: value for path, value in shape.values.items()}
    assert shape.params == pytest.approx(params, rel=0.01)
    assert found["n_layers"] == pytest.approx(layers, rel=1 / 6)
    assert found["d_model"] == pytest.approx(width, rel=0.10)
    assert found["d_ff"] == pytest.approx(d_ff, rel=0.10)
    assert found["n_heads"] == pytest.approx(heads, rel=0.10)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("factor", [0.5, 3])
@pytest.mark.parametrize("name", [*HYBRIDS, *WIDE])
def test_what_a_family_keeps_stays(name, factor):
    base = BaseShape(load(name))
    shape = ranked(base, round(base.counts[0] * factor))[0].shape
    for size in base.sizes:
        if size.name in {"head_dim", "n_experts", "top_k", "window", "state", "vocab_size", "v_head_dim"}:
            assert size.path not in shape.values
    for group in base.groups:
        assert (shape.values[group.path] - group.n_layers) % group.period == 0
    assert shape.d_model % 64 == 0
    assert shape.params == count_params(shape.model).totals["params"]


@pytest.mark.long
def test_the_ratio_of_heads_that_share_keys_stays_where_it_divides():
    found = best("llama-3.1-8b", 60e9)
    heads = {path.rsplit(".", 1)[-1]: value for path, value in found.values.items()}
    assert heads["n_heads"] % heads["n_kv_heads"] == 0
    assert heads["n_heads"] * 128 == found.d_model


@pytest.mark.long
def test_sizes_that_are_named_are_kept():
    assert not any("kv_heads" in path for path in best("llama-3.1-8b", 70e9, ["n_kv_heads"]).values)
    assert best("llama-3.1-8b", 20e9, ["n_layers"]).n_layers == 32
    assert best("llama-3.1-8b", 20e9, ["d_model"]).d_model == 4096


def test_leading_layers_scale_with_the_others():
    model = load("deepseek-v3")  # 3 dense layers, 58 sparse ones
    depths = depths_near(group_depths(model), 1 / 3, 1)[0]
    assert depths == {"groups.0.n_layers": 1, "groups.1.n_layers": 19}


def test_layers_that_read_others_follow_them():
    model = load("gemma-3n-e4b")  # 10 + 10 layers, then 15 that read layers 18 and 19 of the second group
    depths = {"groups.0.n_layers": 10, "groups.1.n_layers": 20, "groups.2.n_layers": 30}
    assert {number for _, number in moved_references(model, depths)} == {28, 29}


def test_layers_read_the_same_place_of_a_pattern_that_has_become_shorter():
    """Layers 0 and 1 of four in a pattern of two, where two are left; and layers 2 and 3."""
    attention = {"kind": "gqa", "n_heads": 2, "n_kv_heads": 1, "head_dim": 4}
    wide = attention | {"head_dim": 6}
    pattern = [
        {"kind": "pre_norm", "attention": each, "ffn": {"kind": "mlp", "d_ff": 8}}
        for each in (attention, wide)
    ]
    for first in (0, 2):
        readers = [
            layer | {"attention": layer["attention"] | {"kv_from": first + i}}
            for i, layer in enumerate(pattern)
        ]
        groups = [{"n_layers": 4, "pattern": pattern}, {"n_layers": 2, "pattern": readers}]
        model = load({"vocab_size": 9, "d_model": 8, "norm": "rmsnorm", "groups": groups})
        moved = dict(moved_references(model, {"groups.0.n_layers": 2, "groups.1.n_layers": 2}))
        assert list(moved.values()) == [0, 1]


@pytest.mark.parametrize(
    ("before", "after", "growth"),
    # 64 at 125M and 128 at 6.7B make a factor of two; beyond 6.7B nothing grows
    [(125e6, 6.7e9, 2.0), (6.7e9, 175e9, 1.0), (175e9, 125e6, 0.5)],
)
def test_the_aspect_grows_as_in_gpt3(before, after, growth):
    assert aspect_growth(before, after) == pytest.approx(growth, rel=0.001)


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ("opt-125m", "opt-6.7b"),
        ("opt-125m", "opt-1.3b"),
        ("pythia-1.4b", "pythia-6.9b"),
        ("rwkv-4-169m", "rwkv-4-7b"),
        ("phi-1.5", "phi-4"),
    ],
)
def test_other_families_grow_alike(small, large):
    before, after = BaseShape(load(small)), BaseShape(load(large))
    aspects = [base.model.d_model / base.n_layers for base in (before, after)]
    assert aspect_growth(before.counts[0], after.counts[0]) == pytest.approx(
        aspects[1] / aspects[0], rel=0.15
    )


def test_rounding():
    assert nearest(14336, 8704, 4096, 256) == 30464  # 14336 * 8704 / 4096 = 30464
    assert nearest(100, 1, 2, 64) == 64  # 50 is nearer to 64 than to 0, which is none
    assert nearest(96, 1, 1, 64) == 128  # half goes up
    assert unit_of(14336, 30000) == 256
    assert unit_of(14336, 7000) == 128  # 7000 / 256 is less than 32 steps
    assert unit_of(160, 200) == 32  # a rank: 160 = 5 * 32
    assert divisor_near(21, 5.25) == 7  # of 3 and 7: 7 / 5.25 = 1.33, 5.25 / 3 = 1.75
    assert divisor_near(20, 5) == 5


def test_a_size_below_what_the_vocabulary_takes_is_refused():
    with pytest.raises(ArchError, match="100,000 parameters are fewer than the smallest shape has"):
        ranked(BaseShape(load("llama-3.1-8b")), 100_000)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", COVERING)
def test_every_preset_has_a_shape_near_twice_its_size(name):
    base = BaseShape(load(name))
    sizes = [entry.shape.params for entry in ranked(base, 2 * base.counts[0])]
    assert min(abs(size / (2 * base.counts[0]) - 1) for size in sizes) < 0.05


def test_kv_heads_are_a_number_that_devices_share_where_the_bases_are():
    assert divisor_near(40, 10, 8) == 8  # 10 is nearer, and 4 devices cannot share it
    assert divisor_near(40, 10, 10) == 10  # as in a base whose heads they cannot share either
    assert divisor_near(20, 5, 8) == 4
    assert [shared_unit(32, ideal) for ideal in (9, 20, 40, 70)] == [1, 2, 4, 8]
    assert shared_unit(9, 70) == 1


@pytest.mark.long
def test_heads_that_are_kept_divide_every_width():
    """Without a head_dim of their own they take d_model / n_heads, even as in the base, for RoPE."""
    base = BaseShape(load("gpt2", ["n_heads=3"]), keep=("n_heads",))
    assert base.model.d_model // 3 == 256
    assert base.unit(1000) % (3 * 2) == 0
    assert ranked(base, 300_000_000)[0].shape.d_model % (3 * 2) == 0


@pytest.mark.long
def test_halves_of_heads_stay_whole():
    """Differential attention compares the two halves of its heads, so that their numbers are even."""
    mixer = "attention={kind: differential, n_kv_heads: 6, n_heads: 6, head_dim: 8, lambda_init: 0.2}"
    base = load("llama-3.1-8b", [mixer, "vocab_size=100"])
    shape = ranked(BaseShape(base), 1_000_000_000)[0].shape
    heads = [value for path, value in shape.values.items() if path.endswith(("n_heads", "n_kv_heads"))]
    assert len(heads) == 2
    assert all(n % 2 == 0 for n in heads)
    assert divisor_near(6, 3, unit=2) == 2
