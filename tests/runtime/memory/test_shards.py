"""Shards of weights by torch's FSDP2 and tensor parallelism, against division in the open."""

import pytest
import torch.distributed as dist
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from archcli.load.source import load
from archcli.wings.running.runtime.memory.shards import Mesh, fake_rank, is_layer, shards_of
from zoo import ZOO

BF16 = 2
GPT2 = load("gpt2").model


@pytest.mark.long
def test_uneven_shards():
    """Rows are dealt out in equal pieces; the last rank has what is left of 50257, 1024, 768 and 3072."""
    whole = shards_of(GPT2, Mesh())
    first, last = (shards_of(GPT2, Mesh(dp=5), rank) for rank in (0, 4))
    table = "embedding.tokens.weight"
    assert whole[table] == BF16 * 50257 * 768
    assert first[table] == BF16 * 10052 * 768
    assert last[table] == BF16 * (50257 - 4 * 10052) * 768
    assert sum(whole.values()) == BF16 * 124_439_808


@pytest.mark.long
def test_the_shards_of_llama_8b_on_three_ranks():
    llama = load("llama-3.1-8b").model
    assert [sum(shards_of(llama, Mesh(dp=3), rank).values()) // BF16 for rank in (0, 2)] == [
        2_677_496_534,
        2_675_268_180,
    ]


@pytest.mark.long
def test_a_plan_divides_what_it_names():
    plan = {
        "layers.*.attention.q_proj": ColwiseParallel(),
        "layers.*.attention.o_proj": RowwiseParallel(),
    }
    whole, half, quarter = (shards_of(GPT2, Mesh(dp, tp), plan=plan) for dp, tp in ((1, 1), (1, 2), (2, 2)))
    q, o, k = (f"layers.7.attention.{name}.weight" for name in ("q_proj", "o_proj", "k_proj"))
    assert (half[q], half[o], half[k]) == (whole[q] // 2, whole[o] // 2, whole[k])
    assert (quarter[q], quarter[o], quarter[k]) == (whole[q] // 4, whole[o] // 4, whole[k] // 2)
    # a bias is divided by columns, and whole where rows are
    assert half["layers.7.attention.q_proj.bias"] == BF16 * 768 // 2
    assert half["layers.7.attention.o_proj.bias"] == BF16 * 768


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ZOO)
def test_all_ranks_together_hold_the_model(name):
    whole = shards_of(ZOO[name], Mesh(), dtype="fp32")
    parts = [shards_of(ZOO[name], Mesh(dp=3), rank, dtype="fp32") for rank in range(3)]
    assert {key: sum(part[key] for part in parts) for key in whole} == whole


def test_the_group_ends_with_the_block():
    with fake_rank(1, 4):
        assert (dist.get_rank(), dist.get_world_size()) == (1, 4)
    assert not dist.is_initialized()


def test_layers_are_known_by_their_paths():
    paths = ["layers.3", "encoder.layers.0", "layers.3.ffn", "layers.3.ffn.experts.2", "layers", ""]
    assert [is_layer(path) for path in paths] == [True, True, False, False, False, False]
