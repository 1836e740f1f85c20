"""Elements on a device are those of torch's own shards: FSDP2, tensor parallelism, and both."""

from pathlib import Path

import pytest
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from archcli.load.source import load
from archcli.measure.passes import train_pass
from archcli.modules.models.stack import stacks
from archcli.wings.running.runtime.memory.shards import Mesh, shards_of
from archcli.wings.serving.memory.pipeline import stages_of
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.shares import placed_weights, shares

PRESETS = Path(__file__).parents[3] / "presets"
BF16 = 2
COLUMN = ("attention.q_proj", "attention.k_proj", "attention.v_proj", "ffn.gate_proj", "ffn.up_proj")
ROW = ("attention.o_proj", "ffn.down_proj")
LAYERS = {
    **{f"layers.*.{name}": ColwiseParallel() for name in COLUMN},
    **{f"layers.*.{name}": RowwiseParallel() for name in ROW},
}
WORDS = {"embedding.tokens": RowwiseParallel(input_layouts=Replicate()), "lm_head": ColwiseParallel()}


def counted(model, plan, rank=0, tp_rank=0):
    """Elements of all weights of one device."""
    part = plan.share(model, tp_rank)
    n_layers = sum(group.n_layers for _, stack in stacks(model) for group in stack.groups)
    stage, weights = stages_of(plan, n_layers)[0], list(placed_weights(part, train_pass(part, 1, 8).rows))
    return shares(plan, weights, stage, rank).weights


def is_counted(name):
    """Left out: adapters, whose names torch's trees do not take."""
    return load(name).model.lora is None


NAMES = [path.stem for path in sorted(PRESETS.glob("*.yaml")) if is_counted(path.stem)]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("name", NAMES)
def test_fsdp_on_three_ranks(name, rank):
    """Every preset, first and last rank, mixtures and recurrent ones too."""
    model = load(name).model
    theirs = sum(shards_of(model, Mesh(dp=3), rank).values()) // BF16
    assert counted(model, Plan(dp=3, zero=3), rank) == theirs


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 63])
def test_tensor_parallelism_and_fsdp(rank):
    """Llama 3.1 70B on 8 x 8 devices."""
    model, mesh = load("llama-3.1-70b").model, Mesh(dp=8, tp=8)
    ours = counted(model, Plan(dp=8, tp=8, zero=3), rank // 8, rank % 8)
    assert ours == sum(shards_of(model, mesh, rank, plan=LAYERS | WORDS).values()) // BF16
    # a plan of the layers alone leaves the tables whole on each of the ranks that share matrices
    naive = sum(shards_of(model, mesh, rank, plan=LAYERS).values()) // BF16
    assert naive == 1_332_380_672
    assert naive - ours == 2 * 128_256 * 8192 * 7 // 64


@pytest.mark.long
@pytest.mark.parametrize("rank", [0, 3])
def test_uneven_words_and_rows(rank):
    """Two by two devices of GPT-2: 50,257 words are 25,129 and 25,128, then halves of them."""
    model = load("gpt2").model
    ours = counted(model, Plan(dp=2, tp=2, zero=3), rank // 2, rank % 2)
    present = {path: style for path, style in (LAYERS | WORDS).items() if not path.endswith(ABSENT)}
    assert ours == sum(shards_of(model, Mesh(2, 2), rank, plan=present).values()) // BF16


ABSENT = ("gate_proj", "lm_head")
"""Projections that GPT-2 lacks: its network has no gate, its head is its table."""
