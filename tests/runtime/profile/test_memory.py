"""What does not fit is refused with figures before anything is built.

What a run needs is the peak of its live storages.
"""

import pytest

from archcli.errors import ArchError
from archcli.load.source import load
from archcli.modules.spec.request import Request
from archcli.wings.serving.memory.beyond.timed_run import require_memory, run_memory
from archcli.wings.serving.recorded.machine import available_memory, cores, total_memory
from sources import OTHERS

GPT2 = load("gpt2").model
PARAMS = 124_439_808


def memory_of(model, phase, batch_size=1, seq_len=1, dtype="fp32", attention="sdpa", **more):
    return run_memory(model, Request(phase, batch_size, seq_len, **more), dtype, attention)


def test_weights_and_cache_are_exact():
    memory = memory_of(GPT2, "decode", 3, past=100, dtype="bf16")
    assert memory["weights_bytes"] == 2 * PARAMS
    # before and after, of keys and values in bf16
    assert memory["cache_bytes"] == 2 * (2 * 12 * 768 * 3) * (100 + 101)


def test_a_source_is_cached_once():
    # keys and values of 3 layers, 4 heads of 6: of 2 x 10 tokens before, of 2 x 11 after; of 2 x 7 source
    # tokens the same ones
    memory = memory_of(OTHERS["t5"], "decode", 2, past=10, source_len=7, dtype="bf16")
    assert memory["cache_bytes"] == 2 * (3 * 2 * 4 * 6) * (2 * 10 + 2 * 11 + 2 * 7)


def test_all_weights_are_built_whatever_the_pass_runs():
    whole = memory_of(OTHERS["t5"], "forward", seq_len=3, source_len=3)["weights_bytes"]
    assert memory_of(OTHERS["t5"], "decode", past=3, source_len=3)["weights_bytes"] == whole


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.torch
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_an_inference_is_the_peak_of_live_storages(phase, attention):
    from archcli.wings.running.runtime.memory.models import WitnessSetting
    from archcli.wings.running.runtime.memory.peak import inference_peak

    tokens = 1 if phase == "decode" else 32
    past = 32 if phase == "decode" else None
    memory = memory_of(GPT2, phase, 2, tokens, past=past, attention=attention)
    live = inference_peak(
        GPT2, Request(phase, 2, tokens, past), setting=WitnessSetting("fp32", attention, "cpu")
    )
    ids = 2 * tokens * 8
    assert memory["cache_bytes"] + memory["activations_bytes"] - ids == pytest.approx(live.bytes, rel=0.01)


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_training_is_the_peak_of_live_storages(attention):
    import torch

    from archcli.wings.running.runtime.memory.models import WitnessSetting, prepared
    from archcli.wings.running.runtime.memory.peak import LiveStorages

    request = Request("train", 2, 32).resolved()
    memory = memory_of(GPT2, "train", 2, 32, attention=attention)
    with prepared(GPT2, request, WitnessSetting("fp32", attention, "cpu")) as (model, inputs):
        gradient = torch.empty(2, 32, 50257)
        with LiveStorages([*model.parameters(), *model.buffers(), *inputs.values(), gradient]) as live:
            torch.autograd.backward([model(**inputs)], [gradient])
    given = 2 * 32 * 50257 * 4 + 2 * 32 * 8  # of the logits; ids
    needed = memory["gradients_bytes"] + memory["activations_bytes"]
    assert memory["gradients_bytes"] == 4 * PARAMS
    assert abs(needed - given - live.peak.bytes) <= 1024


def test_needed_is_the_sum():
    memory = memory_of(GPT2, "train", seq_len=8, attention="eager")
    assert memory["needed_bytes"] == sum(size for name, size in memory.items() if name != "needed_bytes")


def test_a_gpu_needs_what_is_beyond_the_model():
    memory = run_memory(GPT2, Request("forward", 1, 8), "bf16", "sdpa", "cuda")
    # the context, and a workspace of cuBLAS
    assert memory["torch_bytes"] == 500_000_000 + 8 * 4096 * 1024


def refusal(dtype, available, *sizes):
    with pytest.raises(ArchError) as refused:
        require_memory("gpt2", memory_of(GPT2, "forward", *sizes, dtype=dtype), available, dtype)
    return str(refused.value)


def test_weights_that_do_not_fit_are_refused_with_figures():
    assert refusal("fp32", 2**28, 1, 8) == (
        "gpt2 in fp32 needs 0.5 GiB of weights; this machine has 0.2 GiB available; try --dtype "
        "bf16, a smaller preset or --set n_layers=…"
    )


def test_activations_that_do_not_fit_are_refused_with_figures():
    message = refusal("bf16", 8 * 2**30, 512, 1024)
    assert message.startswith("gpt2 in bf16 needs about ")
    assert "0.2 GiB weights" in message
    assert "--dtype" not in message


@pytest.mark.parametrize("available", [None, 2**40])
def test_what_fits_is_let_through(available):
    require_memory("gpt2", memory_of(GPT2, "forward", 1, 8), available, "fp32")


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


def test_memory_in_all_is_that_of_the_machine_or_a_limit_below_it(tmp_path):
    machine(tmp_path, MEMINFO | GROUP | {"groups/job/memory.max": "800000\n"})
    assert total_memory(tmp_path / "proc", tmp_path / "groups") == 800_000
    (tmp_path / "groups" / "job" / "memory.max").write_text("80000000\n")
    assert total_memory(tmp_path / "proc", tmp_path / "groups") == 2000 * 1024
    assert total_memory(tmp_path / "nowhere", tmp_path / "nowhere") is None


def test_cores_are_counted_once_for_their_threads(tmp_path):
    """Two sockets of three cores, each of two threads; and a processor that tells no cores."""
    places = [(socket, core) for socket in range(2) for core in range(3) for _ in range(2)]
    blocks = [
        f"processor\t: {i}\nphysical id\t: {socket}\ncore id\t\t: {core}\n"
        for i, (socket, core) in enumerate(places)
    ]
    (tmp_path / "cpuinfo").write_text("\n".join(blocks))
    assert cores(tmp_path) == 2 * 3
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nBogoMIPS\t: 50\n\nprocessor\t: 1\nBogoMIPS\t: 50\n\n")
    assert cores(tmp_path) == 2
