"""A stack shorter than its pattern has the first layers of it.

A layer of its own each, nothing counted that does not run.
"""

import pytest
import torch

import archcli
from archcli.measure.passes import forward_pass
from archcli.modules import (
    GLU,
    Decoder,
    Group,
    GroupedQueryAttention,
    MultiHeadLatentAttention,
    PreNorm,
    RMSNorm,
    Rope,
)
from readings.readings import by_torch, by_torch_cache, counted_dense

torch.set_num_threads(1)
NORM = RMSNorm()
LOCAL = PreNorm(
    attention=GroupedQueryAttention(n_heads=4, n_kv_heads=2, head_dim=4, position=Rope(), window=3),
    ffn=GLU(d_ff=5),
    norm=NORM,
)
GLOBAL = PreNorm(
    attention=MultiHeadLatentAttention(
        n_heads=2,
        kv_lora_rank=3,
        qk_nope_head_dim=2,
        qk_rope_head_dim=2,
        v_head_dim=3,
        form="absorbed",
        latent_norm=NORM,
    ),
    ffn=GLU(d_ff=7),
    norm=NORM,
)


def stack(*n_layers):
    groups = tuple(Group(n_layers=n, pattern=(LOCAL, LOCAL, GLOBAL)) for n in n_layers)
    return Decoder(vocab_size=11, d_model=8, norm=NORM, groups=groups)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("n_layers", [(1,), (2,), (3,), (4,), (1, 2), (2, 1, 4), (7, 2)])
def test_any_number_of_layers_agrees_with_torch(n_layers):
    model = stack(*n_layers)
    theirs = by_torch(model, 2, 5) | by_torch_cache(model, 2, 5)
    assert counted_dense(model, 2, 5) == theirs


def test_layers_have_paths_of_their_own():
    rows = forward_pass(stack(1, 2), 1, 3).rows
    layers = [row.path.split(".")[1] for row in rows if row.path.endswith(".attention.attend")]
    assert layers == ["0", "1", "2"]
    assert {row.times for row in rows} == {1}
    assert len({row.path for row in rows}) == len(rows)


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("n_layers", [(1,), (1, 2)])
def test_a_stack_shorter_than_its_pattern_has_a_formula(n_layers):
    """Of a table that only a layer beyond its end reads, nothing is in it."""
    model = stack(*n_layers)
    value = archcli.explain(model, "flops").totals["value"]
    assert value == archcli.count_flops(model).totals["matmul_flops"]
    assert archcli.formula(model).values
