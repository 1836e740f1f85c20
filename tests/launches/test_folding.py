"""One layer of a group stands for the others only where three periods of it launch the same kernels."""

from collections import Counter

import pytest

from archcli.graph.kept import Execution
from archcli.load.source import load
from archcli.modules import GLU, Group, SharedLayer
from archcli.modules.models.layers import LayerIndex
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.serving.launches.kernel_tape import FoldedLayers, UnlikeLayersError
from archcli.wings.serving.launches.log import Log
from archcli.wings.serving.launches.trace import run_pass
from small import NORM, decoder, layer

ALIKE = {
    "llama-3.2-1b": "every layer",
    "gemma-2-2b": "a pattern of two",
    "mixtral-8x7b": "experts",
    "deepseek-v3": "two groups, and one more layer behind them",
    "mamba2-2.7b": "scans",
    "gpt2": "biases",
}
UNLIKE = {
    "t5-small": "all layers add up the gradient of one table",
    "albert-base-v2": "all layers have the same weights",
    "gemma-3n-e2b": "layers read keys of earlier ones",
    "zamba-7b": "layers read the embedding",
}


def launches(model, request, execution, folded=None):
    """How often each kernel is launched, by the counted path of its row."""
    log, index, total = Log(), LayerIndex(model), Counter()
    run_pass(log, model, request, execution, folded=folded)
    for (origin, stage, kernel), number in log.launches.items():
        total[index.counted_path(origin.path), stage, kernel] += number * origin.times
    return total


def both(model, request, execution=None):
    """(with one period of each pattern, with three)."""
    execution = execution or Execution(records=request.phase == "train")
    return launches(model, request, execution, FoldedLayers()), launches(model, request, execution)


@pytest.mark.sample(2)
@pytest.mark.parametrize("phase", ["train", "forward", "prefill", "decode"])
@pytest.mark.parametrize("name", ALIKE)
def test_one_period_launches_what_three_do(name, phase):
    one, three = both(load(name).model, Request(phase, 2, 16))
    assert one == three


@pytest.mark.parametrize("degrees", [{"tp": 2}, {"tp": 2, "sp": True}, {"tp": 2, "ep": 4}])
def test_one_period_of_a_rank(degrees):
    name = "mixtral-8x7b" if "ep" in degrees else "llama-3.2-1b"
    one, three = both(shard(load(name).model, **degrees), Request("train", 2, 16))
    assert one == three


@pytest.mark.parametrize("name", UNLIKE)
def test_layers_that_share_more_than_what_they_hand_on_are_run_apart(name):
    with pytest.raises(UnlikeLayersError):
        launches(load(name).model, Request("train", 1, 16), Execution(records=True), FoldedLayers())


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", UNLIKE)
def test_without_gradients_such_layers_are_alike(name):
    model = load(name).model
    for phase in ("forward", "prefill", "decode") if model.caches else ("forward",):
        request, execution = Request(phase, 2, 16), Execution()
        one = launches(model, request, execution, FoldedLayers(trains=False))
        assert one == launches(model, request, execution)


def test_layers_with_sublayers_of_their_own_around_a_shared_block_are_run_apart():
    """The gradients of the block's weights are added up over the layers, of which one shows nothing."""
    around = SharedLayer(use="block", ffn=GLU(d_ff=12), norm=NORM)
    model = decoder(Group(n_layers=3, layer=around), shared={"block": layer()})
    with pytest.raises(UnlikeLayersError):
        launches(model, Request("train", 1, 16), Execution(records=True), FoldedLayers())


def test_a_first_layer_without_a_gradient_is_not_like_the_others():
    """A frozen table: nothing flows back through the input of the first layer."""
    frozen = load("llama-3.2-3b-lora-3.7bit").model
    with pytest.raises(UnlikeLayersError):
        launches(frozen, Request("train", 1, 16), Execution(records=True), FoldedLayers())


def test_one_layer_is_run_for_three():
    """Of a decoder of three layers: a layer's kernels, three times each."""
    one, three = both(decoder(), Request("train", 2, 5))
    of_layer = {key: n for key, n in one.items() if key[0].startswith("layers.0.")}
    assert of_layer
    assert all(number % 3 == 0 for number in of_layer.values())
    assert one == three
