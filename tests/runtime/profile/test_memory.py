"""What does not fit is refused with figures before anything is built.

What fits is estimated from above no more than needed.
"""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.measure.memory.estimate import memory_of, require_memory
from archcli.measure.passes import decode_pass, forward_pass, train_pass
from archcli.recording.machine import available_memory
from sources import OTHERS

GPT2 = load("gpt2").model
PARAMS = 124_439_808


def test_weights_and_cache_are_exact():
    memory = memory_of(decode_pass(GPT2, 3, 100), "bf16", "sdpa")
    assert memory["weights_bytes"] == 2 * PARAMS
    assert (
        memory["cache_bytes"] == 2 * (2 * 12 * 768 * 3 * 101) * 2
    )  # before and after; keys and values; bf16


def test_a_source_is_cached_once():
    # keys and values of 3 layers, 4 heads of 6: of 2 x 10 tokens and 2 x 11, before and after; of 2 x 7
    # source tokens the same ones
    memory = memory_of(decode_pass(OTHERS["t5"], 2, 10, source_len=7), "bf16", "sdpa")
    assert memory["cache_bytes"] == 2 * (3 * 2 * 4 * 6) * (2 * 2 * 11 + 2 * 7)


def test_the_stream_that_waits_is_that_of_the_longer_stack():
    activations = [
        memory_of(forward_pass(OTHERS["whisper"], 1, new), "fp32", "sdpa")["activations_bytes"]
        for new in (1, 3)
    ]
    # 6 channels of 22 frames, two convolutions and what their activations make of them, beside 11 positions
    # of the stream
    front_end = 6 * 22 + 2 * (22 * 16) + 2 * (11 * 16)
    assert activations == [4 * (front_end + 11 * 16)] * 2


def test_training_holds_gradients_and_every_output():
    forward, train = (
        memory_of(counted, "fp32", "sdpa") for counted in (forward_pass(GPT2, 1, 64), train_pass(GPT2, 1, 64))
    )
    assert forward["gradients_bytes"] == 0
    assert train["gradients_bytes"] == 4 * (PARAMS + 50257 * 768)
    assert train["activations_bytes"] > 12 * 64 * (8 * 768 + 2 * 3072) * 4 > forward["activations_bytes"]


def test_eager_attention_holds_its_scores():
    memory = memory_of(forward_pass(GPT2, 2, 2048), "bf16", "eager")
    made = 7 * (
        2 * 2048 * 768
    )  # the stream, its norm, queries, keys, values, what is mixed, what is projected
    # scores in bf16, the same in fp32 and the softmax of those; one byte per pair of a mask that all heads
    # share
    scores = (2 + 4 + 4) * (2 * 12 * 2048 * 2048) + 2048 * 2048
    assert memory["activations_bytes"] == 2 * made + scores


def test_needed_is_the_sum():
    memory = memory_of(train_pass(GPT2, 1, 8), "fp32", "eager")
    assert memory["needed_bytes"] == sum(size for name, size in memory.items() if name != "needed_bytes")


def refusal(counted, dtype, available):
    with pytest.raises(ArchError) as refused:
        require_memory("gpt2", memory_of(counted, dtype, "sdpa"), available, dtype)
    return str(refused.value)


def test_weights_that_do_not_fit_are_refused_with_figures():
    assert refusal(forward_pass(GPT2, 1, 8), "fp32", 2**28) == (
        "gpt2 in fp32 needs 0.5 GiB of weights; this machine has 0.2 GiB available; try --dtype "
        "bf16, a smaller preset or --set n_layers=…"
    )


def test_activations_that_do_not_fit_are_refused_with_figures():
    message = refusal(forward_pass(GPT2, 512, 1024), "bf16", 8 * 2**30)
    assert message.startswith("gpt2 in bf16 needs about ")
    assert "0.2 GiB weights" in message
    assert "--dtype" not in message


@pytest.mark.parametrize("available", [None, 2**40])
def test_what_fits_is_let_through(available):
    require_memory("gpt2", memory_of(forward_pass(GPT2, 1, 8), "fp32", "sdpa"), available, "fp32")


def machine(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return available_memory(tmp_path / "proc", tmp_path / "groups")


MEMINFO = {"proc/meminfo": "MemTotal: 2000 kB\nMemAvailable:    1000 kB\n"}
GROUP = {"proc/self/cgroup": "0::/job\n", "groups/job/memory.current": "300000\n"}
OLD_GROUP = {
    "proc/self/cgroup": "5:memory:/job\n4:cpu:/\n",
    "groups/memory/job/memory.usage_in_bytes": "100000\n",
}
MACHINES = {
    "no group": (MEMINFO, 1000 * 1024),
    "a group without a limit": (MEMINFO | GROUP | {"groups/job/memory.max": "max\n"}, 1000 * 1024),
    "a group with a limit": (MEMINFO | GROUP | {"groups/job/memory.max": "800000\n"}, 500_000),
    "file pages count as free": (
        MEMINFO
        | GROUP
        | {"groups/job/memory.max": "800000\n", "groups/job/memory.stat": "anon 5\ninactive_file 7000\n"},
        507_000,
    ),
    "a wide group": (MEMINFO | GROUP | {"groups/job/memory.max": "80000000\n"}, 1000 * 1024),
    "an exhausted group": (MEMINFO | GROUP | {"groups/job/memory.max": "200000\n"}, 0),
    "a group of version 1": (
        MEMINFO | OLD_GROUP | {"groups/memory/job/memory.limit_in_bytes": "400000\n"},
        300_000,
    ),
    "inside a container": (
        MEMINFO | {"groups/memory.max": "9000\n", "groups/memory.current": "1000\n"},
        8000,
    ),
    "no Linux": ({}, None),
}


@pytest.mark.parametrize(("files", "expected"), MACHINES.values(), ids=MACHINES)
def test_available_memory(tmp_path, files, expected):
    assert machine(tmp_path, files) == expected
