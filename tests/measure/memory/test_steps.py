"""A training step as archcli traces it: what its backward leaves, and how its peak grows. Without torch."""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.wings.serving.memory.answers.question import MemoryQuestion
from archcli.wings.serving.memory.answers.report import count_memory
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.memory.traced import peak_bytes, trace_memory
from archcli.wings.serving.memory.training.backward import Backward
from archcli.wings.serving.memory.training.step import first_tensor, held_alone
from covering import COVERING

DENSE = ("gpt2", "llama-3.2-1b", "qwen3-8b", "gemma-2-2b", "bert-base-uncased", "phi-2")


def traced(name, **settings):
    model, asked = load(name).model, MemorySettings("train", 2, 64, **settings)
    return model, asked, trace_memory(model, asked.request(model), asked.execution())


@pytest.mark.sample(4)
@pytest.mark.parametrize("phase", ["train", "prefill", "decode", "serve"])
@pytest.mark.parametrize("name", COVERING)
def test_every_preset_has_an_answer(name, phase):
    question = MemoryQuestion(load(name).model, MemorySettings(phase, 2, 64))
    if phase != "train" and not question.model.caches:  # an encoder
        with pytest.raises(ArchError):
            count_memory(question)
        return
    totals = count_memory(question).totals
    assert totals["peak_bytes"] == sum(totals["parts"].values()) > 0


@pytest.mark.parametrize("name", DENSE)
def test_the_backward_leaves_the_gradients_alone(name):
    """What was kept is let go, no gradient flows on, and every trained weight has one."""
    model, asked, passed = traced(name)
    output = first_tensor(passed.output)
    backward = Backward(passed.ledger)
    backward.run((output.value.place.value, 1))
    assert passed.ledger.kept > 0
    assert backward.kept == 0
    assert backward.flowing == 0
    assert backward.gradients == held_alone(model, asked).gradients > 0


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", DENSE)
def test_more_sequences_and_longer_ones_take_more(name):
    def peak(batch, seq):
        question = MemoryQuestion(load(name).model, MemorySettings("train", batch, seq))
        return question.answer().peak_bytes

    sizes = [peak(batch, 256) for batch in (1, 2, 4, 64)]
    lengths = [peak(8, seq) for seq in (64, 128, 256, 512)]
    assert sizes == sorted(sizes)
    assert lengths == sorted(lengths)
    assert sizes[-1] > sizes[0]


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_each_stage_of_sharding_takes_no_more_than_the_one_before(zero):
    model, settings = load("llama-3.2-1b").model, MemorySettings("train", 1, 128)
    less = MemoryQuestion(model, settings, Plan(dp=8, zero=zero)).answer().largest.peak
    alone = MemoryQuestion(model, settings).answer().largest
    held = less.weights + less.gradients + less.optimizer
    assert held <= alone.peak.weights + alone.peak.gradients + alone.peak.optimizer
    assert (less.optimizer < alone.peak.optimizer) == (zero > 0)
    assert (less.weights < alone.peak.weights) == (zero == 3)
    assert peak_bytes(alone.moments) == alone.peak.bytes
