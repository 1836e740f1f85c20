"""One rank's parameters are those that torch's DTensor gives it, name by name."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.passes import forward_pass
from archcli.modules import FeedForward, Mixer, SoftmaxAttention
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.base import find
from archcli.modules.tensor_parallel.shard import shard
from covering import COVERING
from dtensors import local_shapes


def is_dense(model):
    """Whether all mixers are softmax attention, and no network is a mixture."""
    return all(isinstance(mixer, SoftmaxAttention) for _, mixer in find(model, Mixer)) and not any(
        hasattr(module, "n_experts") for _, module in find(model, FeedForward)
    )


def counted_shapes(model):
    """(name, shape) of each parameter of the rows, layer by layer."""
    layers, rows = LayerIndex(model), forward_pass(model, 1, 8).rows
    return {
        f"{path}.{which}": stacked(row, shape)
        for row in rows
        for which, shape in row.weights.items()
        for path in layers.stored_paths(row)
    }


def stacked(row, shape):
    return shape if row.experts is None else (row.experts.n_experts, *shape)


def splits(name, tp=2):
    model = load(name).model
    if not is_dense(model) or model.lora is not None:
        return False
    try:
        shard(model, tp)
    except ArchError:
        return False
    return True


DENSE = [name for name in COVERING if splits(name)]
MIXTURES = ("mixtral-8x7b", "gpt-oss-20b")


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("name", DENSE)
def test_dense(name, rank):
    model = load(name).model
    assert counted_shapes(shard(model, 2, rank=rank)) == local_shapes(model, rank, 2)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", MIXTURES)
def test_experts_by_channel(name, rank):
    model = load(name).model
    assert counted_shapes(shard(model, 4, rank=rank)) == local_shapes(model, rank, 4)


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", MIXTURES)
def test_whole_experts(name, rank):
    model = load(name).model
    assert counted_shapes(shard(model, ep=4, rank=rank)) == local_shapes(model, rank, 4, by_expert=True)


@pytest.mark.long
def test_uneven_words():
    """50,257 words are 25,129 and 25,128."""
    of_ranks = [local_shapes(load("gpt2").model, rank, 2)["embedding.tokens.weight"] for rank in (0, 1)]
    assert of_ranks == [(25129, 768), (25128, 768)]
    assert sum(rows for rows, _ in of_ranks) == 50257


def test_dense_presets_are_many():
    assert len(DENSE) > 20
