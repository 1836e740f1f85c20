"""Elements on a device, by hand: V 50, D 8, 3 layers, 4 query heads and 2 kv heads of width 2, F 12."""

import pytest

from archcli.load.source import load
from archcli.measure.passes import train_pass
from archcli.modules import MLP, Group, MixtureOfExperts
from archcli.modules.adapters.lora import LoRA
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.pipeline import stages_of
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.shares import (
    DeviceElements,
    Gathered,
    Widths,
    gathered,
    local_shapes,
    placed_weights,
    shares,
)
from small import decoder, layer

LAYER = 2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 12 + 2 * 8
TABLE, NORM = 50 * 8, 8


def weights_of(model, plan, rank=0):
    part = plan.share(model, rank)
    return list(placed_weights(part, train_pass(part, 1, 8).rows))


def of_stages(model, plan, rank=0, n_layers=3):
    return [shares(plan, weights_of(model, plan), stage, rank) for stage in stages_of(plan, n_layers)]


def test_stages_of_zero():
    """4 devices: weights are whole up to stage 2, the rest is a fourth where it is sharded."""
    whole = 3 * LAYER + 2 * TABLE + NORM
    part = -(-whole // 4)
    for zero, held in enumerate(((whole, whole, whole), (whole, whole, part), (whole, part, part))):
        assert of_stages(decoder(), Plan(dp=4, zero=zero)) == [DeviceElements(*held)]
    last = of_stages(decoder(), Plan(dp=4, zero=2), rank=3)[0]
    assert last.states == whole - 3 * part


def test_rows_of_each_tensor():
    """3 devices: of 8 rows they have 3, 3 and 2, of 4 rows 2, 2 and 0, of 12 four, of 50 17, 17 and 16."""

    def layer_of(eight, four, twelve):
        # q and o are [8, 8], k and v [4, 8], gate and up [12, 8], down [8, 12], two norms [8]
        return 2 * eight * 8 + 2 * four * 8 + 2 * twelve * 8 + eight * 12 + 2 * eight

    for rank, (eight, four, fifty) in enumerate(((3, 2, 17), (3, 2, 17), (2, 0, 16))):
        held = 3 * layer_of(eight, four, 4) + 2 * fifty * 8 + eight
        assert of_stages(decoder(), Plan(dp=3, zero=3), rank) == [DeviceElements(held, held, held)]


def test_what_is_gathered():
    """Outside of layers all, of the layers two; gradients are padded to three equal chunks."""
    plan = Plan(dp=3, zero=3)
    padded = LAYER + 2 * (9 - 8) * 8 + 2 * (6 - 4) * 8 + (9 - 8) * 12 + 2 * (9 - 8)
    assert gathered(plan, weights_of(decoder(), plan), stages_of(plan, 3)[0]) == Gathered(
        2 * TABLE + NORM, 2 * LAYER, padded, TABLE + NORM, 2 * TABLE + NORM
    )
    assert gathered(Plan(dp=3, zero=2), weights_of(decoder(), plan), stages_of(plan, 3)[0]) == Gathered(
        0, 0, 0
    )


def test_stages_of_a_pipeline():
    """Three layers on two stages: two and the table, one with the final norm and the head."""
    held = [share.weights for share in of_stages(decoder(), Plan(pp=2, micro_batches=2))]
    assert held == [2 * LAYER + TABLE, LAYER + NORM + TABLE]
    # a tied table is held by both ends
    tied = [share.weights for share in of_stages(decoder(tied=True), Plan(pp=2, micro_batches=2))]
    assert tied == held
    assert of_stages(decoder(tied=True), Plan())[0].weights == 3 * LAYER + TABLE + NORM


def test_a_stage_of_a_pipeline_is_whole_through_the_step():
    """As torchtitan has it: no gathers, and sums of whole gradients, between micro batches."""
    plan = Plan(dp=2, zero=3, pp=3, micro_batches=3)
    found = [gathered(plan, weights_of(decoder(), plan), stage) for stage in stages_of(plan, 3)]
    whole = [LAYER + TABLE, LAYER, LAYER + TABLE + NORM]
    assert [(it.root, it.layers, it.sums) for it in found] == [(size, 0, size) for size in whole]


def test_the_places_of_what_is_gathered():
    """Bytes of 100 elements outside of layers, 10 of a layer, among two ranks; gradients in fp32."""
    places = Gathered(root=100, layers=20, reduced=10, head=50, ends=100).bytes(Widths(2, 4), 2)
    assert places == {
        "before": 400,
        "forward": 240,
        "behind": 220,
        "loss": 200,
        "head": 220 + 50,
        "last": 240 + 50 + 20,
        "backward": 240 + 50 + 20 + 40,
        "first": 220 + 50 + 20 + 40,
        "end": 200 + 100 + 40,
    }


def test_frozen_weights_have_no_gradients():
    """Adapters of rank 2 on q and v of three layers."""
    model = decoder(lora=LoRA(rank=2))
    adapters = 3 * 2 * ((8 + 8) + (8 + 4))
    whole = 3 * LAYER + 2 * TABLE + NORM + adapters
    assert of_stages(model, Plan(dp=2)) == [DeviceElements(whole, adapters, adapters)]
    assert of_stages(model, Plan(dp=2, zero=3)) == [DeviceElements(whole // 2, adapters // 2, adapters // 2)]


def test_whole_experts():
    """Two of four experts on each of four devices: two hold the same, over which they are sharded."""
    experts = MixtureOfExperts(n_experts=4, top_k=2, expert=MLP(d_ff=12))
    model = decoder(Group(n_layers=3, layer=layer(ffn=experts)))
    rest = 3 * (2 * 8 * 8 + 2 * 8 * 4 + 2 * 8 + 4 * 8) + 2 * TABLE + NORM
    two = 3 * 2 * (2 * 8 * 12)
    assert of_stages(model, Plan(dp=4, ep=2)) == [DeviceElements(*[rest + two] * 3)]
    of_four = (rest - 2 * TABLE) // 4 + 2 * 13 * 8  # 50 rows are 13 at most
    assert of_stages(model, Plan(dp=4, ep=2, zero=3)) == [DeviceElements(*[of_four + two // 2] * 3)]
    assert of_stages(model, Plan(dp=4, ep=2, zero=1))[0].states == rest // 4 + two // 2


def test_optimizer_states_of_whole_experts():
    """AdamW's two states of each weight that a device holds, one of four experts among them."""
    experts = MixtureOfExperts(n_experts=4, top_k=2, expert=MLP(d_ff=12))
    model = decoder(Group(n_layers=3, layer=layer(ffn=experts)))
    held = 3 * (2 * 8 * 8 + 2 * 8 * 4 + 2 * 8 + 4 * 8 + 2 * 8 * 12) + 2 * TABLE + NORM
    settings, plan = MemorySettings("train", 1, 8, optimizer="adamw"), Plan(dp=4, ep=4)
    answer = MemoryQuestion(model, settings, plan).answer()
    assert answer.largest.peak.optimizer == 2 * 2 * held


def test_shapes_for_an_optimizer():
    plan = Plan(dp=3, zero=3)
    shapes = {
        weight.path: (shape, n)
        for weight, shape, n in local_shapes(plan, weights_of(decoder(), plan), stages_of(plan, 3)[0], rank=2)
    }
    assert shapes["embedding.tokens.weight"] == ((16, 8), 1)
    assert shapes["layers.0.attention.k_proj.weight"] == ((0, 8), 3)


def test_context_parallelism_shards_as_replicas_do():
    assert of_stages(decoder(), Plan(cp=3, zero=3)) == of_stages(decoder(), Plan(dp=3, zero=3))


def test_an_encoder_decoder_gathers_layers_of_both_halves():
    plan, model = Plan(dp=2, zero=3), load("t5-small").model
    stage = stages_of(plan, 12)[0]
    weights = weights_of(model, plan)
    assert sum(weight.count(stage) * weight.elements for weight in weights) == 60_506_624
    # a decoder's layer: four matrices of attention, four of cross attention, two of the network, three norms
    layer = 8 * 512 * 512 + 2 * 512 * 2048 + 3 * 512
    assert gathered(plan, weights, stage).layers == 2 * layer


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_bytes_of_a_parameter_are_those_of_megatrons_distributed_optimizer(replicas):
    """bf16 weights, fp32 gradients: 18 bytes, and 6 + 12 / d with states shared by d replicas.

    NVIDIA/Megatron-LM, docs: Distributed Optimizer, the table of its theoretical memory.
    """
    recipe = {"optimizer": "adamw-mixed-fused", "gradients": "fp32"}
    settings, plan = MemorySettings("train", 1, 8, **recipe), Plan(dp=replicas, zero=int(replicas > 1))
    params = 3 * LAYER + 2 * TABLE + NORM
    peak = MemoryQuestion(decoder(), settings, plan).answer().largest.peak
    steps = 4 * (1 if plan.zero else 3 * 9 + 3)  # a step count of each tensor
    assert peak.weights + peak.gradients == 6 * params
    assert peak.optimizer == 12 * -(-params // replicas) + steps
