"""Ranks of a plan as processes: they compute one model, report together, and end together."""

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch

import rank_worker
from archcli.arith import ceil_div
from archcli.load.source import load
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import Request
from archcli.modules.tensor_parallel.shard import shard
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.model.random_data import random_inputs
from archcli.wings.running.runtime.profile.work import SEED, prepare
from archcli.wings.serving.memory.plan import Plan
from archcli.wings.serving.memory.settings import MemorySettings
from archcli.wings.serving.predict.rank.planned import planned_pass
from archcli.wings.serving.recorded.schema import first_violation
from launching import (
    ENDLESS,
    PACKAGE,
    SHORT,
    TORCHRUN,
    by_hand,
    children,
    environment,
    hostile,
    installed,
    is_there,
    started,
    torchrun,
    wait_until_joined,
)
from rank_worker import CASES, JOINED, MODELS, REQUESTS, TRAIN, gradients_of, key, logits_of
from tiny_model import TINY

FP32 = 4
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture
def tiny(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    return load(str(tmp_path / "tiny.yaml")).model


def predicted(model, plan, phase):
    """(calls, bytes) of each collective of a rank, as `archcli predict` has them for other devices."""
    planned = planned_pass(model, MemorySettings(phase, 1, 8, dtype="fp32"), plan)
    [stage] = planned.stages(plan)
    sums = defaultdict(lambda: (0, 0))
    for one in planned.collectives(plan, stage):
        calls, size = sums[one.name]
        sums[one.name] = calls + one.times, size + one.bytes
    return sums


def exchanged(document):
    """(calls, bytes) of each collective in a document."""
    return {one["collective"]: (one["calls"], one["bytes"]) for one in document["totals"]["communication"]}


def checked(document, model, request, tp, dp):
    """The figures of a document against what is counted of the whole model and of one rank."""
    assert first_violation(document) is None
    totals, ranks = document["totals"], document["totals"]["ranks"]
    assert (ranks["n"], ranks["tp"], ranks["dp"], ranks["backend"]) == (tp * dp, tp, dp, "gloo")
    assert (document["inputs"]["tp"], document["inputs"]["dp"]) == (tp, dp)
    assert totals["operations_differing"] == []
    assert ranks["matmul_flops"] == count_pass(model, request).flops()[0]
    assert ranks["slowest"] == max(ranks["walls_s"]) == ranks["walls_s"][ranks["slowest_rank"]]
    assert ranks["median"] == totals["wall_s"] == sum(ranks["walls_s"]) / len(ranks["walls_s"])
    for one in totals["communication"]:
        assert 0 < one["exposed_s"] <= one["time_s"] <= one["slowest_s"]
        assert one["gbytes_per_s"] == one["bytes"] / one["time_s"] / 1e9
    for figures in [*totals["by_class"].values(), *document["rows"]]:
        assert figures["seconds"] <= figures["slowest_s"]
    checked_class(document)


def checked_class(document):
    """The class of communication, and its operators, have the bytes of the collectives, and a rate."""
    collectives = document["totals"]["communication"]
    sent = sum(one["bytes"] for one in collectives)
    of_class = document["totals"]["by_class"]["communication"]
    rows = [row for row in document["rows"] if row["class"] == "communication"]
    assert of_class["bytes"] == sum(row["bytes"] for row in rows) == sent
    under_way = [sum(one[key] for one in collectives) for key in ("time_s", "slowest_s")]
    assert sent / under_way[1] / 1e9 <= of_class["gbytes_per_s"] <= 2 * sent / under_way[0] / 1e9
    assert 0 < of_class["byte_share"] < 1
    assert of_class["roof"] is None


@pytest.mark.long
def test_two_ranks_make_one_report(tmp_path, tiny):
    """As any launcher starts them, in a folder that holds another archcli."""
    folder, program = hostile(tmp_path / "hostile"), installed(tmp_path)
    command = [program, "profile", "tiny.yaml", *SHORT, "--tp", 2, "--json"]
    ranks = by_hand(2, *command, cwd=folder)
    (out, err), (silent, err_of_other) = (rank.communicate(timeout=300) for rank in ranks)
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert (silent, err, err_of_other) == ("", "", "")
    document, request = json.loads(out), Request("forward", 1, 8)
    checked(document, tiny, request, 2, 1)
    # one sum behind the table, two in each of two layers: 2 (t - 1) / t of B T d elements
    assert exchanged(document) == {"all_reduce": (5, 5 * 8 * 32 * FP32)}
    assert exchanged(document) == predicted(tiny, Plan(tp=2), "prefill")
    assert count_pass(shard(tiny, 2), request).sent_elements() == 5 * 8 * 32
    assert document["totals"]["by_class"]["communication"]["seconds"] > 0
    assert document["totals"]["machine"]["allocator"] == "large blocks kept"


@pytest.mark.long
def test_torchrun_shows_what_replicas_exchange(tmp_path, tiny):
    """FSDP2 gathers each layer twice and the rest once, and scatters all gradients."""
    options = [*SHORT, "--phase", "train", "--dp", 2]
    folder, program = hostile(tmp_path / "hostile"), installed(tmp_path)
    code, out, _ = torchrun(2, program, "profile", "tiny.yaml", *options, "--json", cwd=folder)
    assert code == 0
    document = json.loads(out)
    checked(document, tiny, Request("train", 2, 8), 1, 2)
    elements = {name: weight.shape for name, weight in build_model(tiny, device="meta").named_parameters()}
    halves = {name: ceil_div(shape[0], 2) * shape[1:].numel() for name, shape in elements.items()}
    layers = sum(half for name, half in halves.items() if name.startswith("layers."))
    rest = sum(halves.values()) - layers
    assert exchanged(document) == predicted(tiny, Plan(dp=2, zero=3), "train")
    assert exchanged(document) == {
        "all_gather": (2 * 2 + 1, (2 * layers + rest) * FP32),
        "reduce_scatter": (2 + 1, (layers + rest) * FP32),
    }


@pytest.mark.long
def test_torchrun_prints_tables(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY)
    code, out, _ = torchrun(2, installed(tmp_path), "profile", "tiny.yaml", *SHORT, "--tp", 2, cwd=tmp_path)
    assert code == 0
    for words in ("median of 2 ranks", "communication", "What the ranks exchange", "slowest rank", "By rank"):
        assert words in out
    assert out.count("Where the time goes") == 1


@pytest.fixture(scope="module", params=[(2, 1), (1, 2)], ids=["tp 2", "dp 2"])
def computed(request, tmp_path_factory):
    """(tp, dp, what each rank computed of every case)."""
    tp, dp = request.param
    folder = tmp_path_factory.mktemp("ranks")
    paths = [PACKAGE, Path(__file__).parents[2] / "helpers"]
    words = [*TORCHRUN, "--nproc-per-node", "2", rank_worker.__file__, folder, tp, dp]
    run_in = environment(PYTHONPATH=":".join(map(str, paths)))
    subprocess.run([*map(str, words)], env=run_in, timeout=500, check=True, capture_output=True)
    return tp, dp, [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.long
def test_ranks_compute_the_logits_of_one_process(computed):
    tp, dp, ranks = computed
    for name, spec, request in CASES:
        parts = [rank[key(name, request)] for rank in ranks]
        whole = logits_of(prepare(spec, request).step())
        joined = torch.cat(parts, -1 if tp > 1 else 0)
        assert (joined - whole).abs().max() <= 1e-5 * whole.abs().max(), key(name, request)
        if dp > 1 and request is REQUESTS[0]:
            check_replicas(spec, parts)


def check_replicas(spec, parts):
    """A replica's logits are, to the bit, those that one process computes of its sequences."""
    request = REQUESTS[0]
    generator = torch.Generator().manual_seed(SEED)
    tokens = random_inputs(spec, request, torch.float32, generator)["tokens"]
    model = prepare(spec, request).model
    with torch.no_grad():
        for part, own in zip(parts, tokens.chunk(len(parts)), strict=True):
            assert torch.equal(part, model(own))


@pytest.mark.long
def test_gradients_of_ranks_are_those_of_one_process(computed):
    _, dp, ranks = computed
    # parts of a weight that joins several lie side by side there, and one after the other here
    for name, spec in (MODELS if dp == 1 else MODELS | JOINED).items():
        work = prepare(spec, TRAIN)
        work.step()
        for path, gradient in gradients_of(work.model).items():
            parts = [rank[key(name, TRAIN)][path] for rank in ranks]
            if dp > 1:  # of which FSDP2 takes the mean
                parts = [2 * parts[0]]
            bound = 1e-4 * gradient.abs().max() + 1e-6
            assert any((whole - gradient).abs().max() <= bound for whole in wholes(gradient, parts)), path


def wholes(gradient, parts):
    """What parts of a gradient may add up to: parts of a matrix, all of it on each rank, or terms of it."""
    if parts[0].shape == gradient.shape:
        yield parts[0]
        yield sum(parts)
        return
    sizes = list(zip(parts[0].shape, gradient.shape, strict=True))
    [axis] = [i for i, (part, whole) in enumerate(sizes) if part != whole]
    yield torch.cat(parts, axis)


@pytest.mark.long
def test_what_ranks_send_is_what_is_counted(computed):
    tp, _, ranks = computed
    for name, spec in (MODELS | JOINED).items():
        for differing, collectives in (rank[f"{name}, recorded"] for rank in ranks):
            assert differing == ()
            sent = {kind: size for kind, _, size, *_ in collectives}
            if tp > 1:
                counted = count_pass(shard(spec, tp), TRAIN).sent_elements() * FP32
                assert sent == {"all_reduce": counted}


def ended(process, pids, within=200):
    """(exit code, stdout, stderr) of a launcher, none of whose ranks is left."""
    out, err = process.communicate(timeout=within)
    assert [pid for pid in pids if is_there(pid)] == []
    return process.returncode, out, err


@LINUX
@pytest.mark.long
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_rank_ends_the_run(tmp_path, killed):
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = [installed(tmp_path), "profile", "tiny.yaml", *ENDLESS, "--tp", 2]
    launcher = started(2, *command, cwd=tmp_path)
    while len(children(launcher.pid)) < 2:
        assert launcher.poll() is None
    pids = children(launcher.pid)
    wait_until_joined(pids)
    os.kill(pids[killed], signal.SIGKILL)
    code, out, err = ended(launcher, pids)
    assert (code, out) == (1, "")
    [line] = [line for line in err.splitlines() if line.startswith("rank ")]
    assert line.startswith(f"rank {1 - killed}: ended")


@LINUX
@pytest.mark.long
@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_leaves_no_rank_behind(tmp_path):
    """The signal is sent to the launcher alone, which hands it on."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = [installed(tmp_path), "profile", "tiny.yaml", *ENDLESS, "--dp", 2, "--phase", "train"]
    launcher = started(2, *command, cwd=tmp_path)
    while len(children(launcher.pid)) < 2:
        assert launcher.poll() is None
    pids = children(launcher.pid)
    wait_until_joined(pids)
    launcher.send_signal(signal.SIGINT)
    _, out, err = ended(launcher, pids)
    assert out == ""
    assert [line for line in err.splitlines() if line.startswith("rank ")] == ["rank 0: interrupted"]


@LINUX
@pytest.mark.long
def test_ranks_end_without_a_launcher_that_ends_them(tmp_path):
    """Each notices by itself that another is gone."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    command = [installed(tmp_path), "profile", "tiny.yaml", *ENDLESS, "--tp", 2]
    first, other = by_hand(2, *command, cwd=tmp_path)
    wait_until_joined([first.pid, other.pid])
    other.kill()
    out, err = first.communicate(timeout=200)
    other.communicate()
    assert (first.returncode, out) == (2, "")
    assert err == "rank 0: ended, as another rank did, or could not be reached\n"
