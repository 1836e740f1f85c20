"""`archcli profile --tp` and `--dp`: what is refused before any rank begins, in a line, and by one rank."""

import json
import shlex
import signal
from itertools import pairwise

import pytest

from archcli.load.source import load_given
from archcli.measure.passes import train_pass
from archcli.wings.running.api.profiling import rank as rank_of_plan
from archcli.wings.serving.memory.shares import sharded_memory

LAYERS = {
    "norm": "rmsnorm",
    "groups": [
        {
            "n_layers": 3,
            "layer": {"kind": "pre_norm", "attention": {"kind": "mha", "n_heads": 2}, "ffn": None},
        }
    ],
}
SIZES = ("-s", 8, "--pairs", 1, "--no-ceilings", "--threads", 1)


@pytest.fixture
def ranked(monkeypatch):
    """ranked(1, 2): this process is rank 1 of 2, as torchrun says it."""
    monkeypatch.setattr(rank_of_plan, "PATIENCE_S", 0.0)
    # no process is started again, which other tests look at
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "1")

    def be(rank, number, **more):
        known = {"RANK": rank, "WORLD_SIZE": number, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": number}
        known |= {"MASTER_ADDR": "localhost", "MASTER_PORT": 1, "TORCHELASTIC_RUN_ID": "none"}
        for name, value in (known | more).items():
            monkeypatch.setenv(name, str(value))

    return be


@pytest.fixture(autouse=True)
def _signals():
    """Whatever is refused leaves signals as they were."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_launcher_the_command_is_said(cli, tiny):
    typed = ["profile", str(tiny), "--tp", "2", "--dp", "3", "-s", "8", "--set", "d_ff=40", "--no-ceilings"]
    done = cli(*typed)
    assert (done.code, done.out) == (2, "")
    problem, hint = done.err.splitlines()
    assert problem == "error: --tp 2 --dp 3 is of 6 processes, one for each device, and this is one alone"
    command = shlex.split(hint.partition("start them by ")[2])
    assert command[:6] == ["torchrun", "--no-python", "--nproc-per-node", "6", "archcli", "profile"]
    asked = command[6:]
    assert asked[0] == str(tiny)
    pairs = {("--tp", "2"), ("--dp", "3"), ("--seq-len", "8"), ("--set", "d_ff=40")}
    assert pairs <= set(pairwise(asked))
    assert asked.count("--no-ceilings") == 1
    assert len(asked) == 1 + 2 * len(pairs) + 1


def test_the_command_that_is_said_is_understood(cli, tiny, ranked):
    """As rank 0 of another number of ranks, which is found before anything runs."""
    done = cli("profile", tiny, "--tp", 2, "-s", 8)
    command = shlex.split(done.err.splitlines()[1].partition("start them by ")[2])
    ranked(0, 4)
    done = cli(*command[5:])
    assert done.code == 2
    assert "error: 4 processes were started, and --tp 2 is of 2\n" in done.err
    assert "--nproc-per-node 2" in done.err


@pytest.mark.parametrize("options", [("--tp", 2), ("--dp", 4), ("--tp", 2, "--dp", 2), ()], ids=str)
def test_another_number_of_processes(cli, tiny, ranked, options):
    ranked(0, 3)
    done = cli("profile", tiny, *options)
    assert (done.code, done.out) == (2, "")
    assert "error: 3 processes were started, and " in done.err


REFUSED = {
    "variants": (("--vs", "d_ff=40"), "--vs takes its ratios within the rounds of one process"),
    "processes": (("--repeat-process", 2), "--repeat-process starts processes of its own"),
    "kinds": (("--per-kind",), "--per-kind takes the model apart"),
    "a compiler": (("--compile",), "--compile is of one process"),
    "one GPU for all": (("--device", "cuda:1"), "each rank has a GPU of its own"),
    "hidden launches": (("--device", "cuda", "--hide-launch"), "--hide-launch would let ranks wait"),
    "a share that is uneven": (("--set", "n_heads=1"), "tp 2 does not divide n_heads 1"),
    "a loss over words": (
        ("--phase", "train", "--set", "loss=cross_entropy"),
        "a loss over words that ranks share is counted, not run",
    ),
    "no model": (("--set", "n_heads=0"), "n_heads"),
    "a size": (("-s", 65, "--set", "d_ff=0"), "d_ff"),
}


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize(("options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_ranks_do_not_run_is_said_by_the_first(cli, tiny, ranked, options, words):
    for rank in (0, 1):
        ranked(rank, 2)
        done = cli("profile", tiny, "--tp", 2, *options)
        assert (done.code, done.out) == (2, "")
        assert (words in done.err) is (rank == 0)
        assert bool(done.err) is (rank == 0)


def test_replicas_share_a_batch(cli, tiny, ranked):
    ranked(0, 2)
    done = cli("profile", tiny, "--dp", 2, "-b", 3)
    assert (done.code, done.out) == (2, "")
    assert "error: --dp 2 does not divide --batch-size 3, the sequences of all replicas" in done.err
    assert "--batch-size 4" in done.err


def test_memory_is_that_of_all_ranks(cli, tiny, ranked, monkeypatch):
    from importlib import import_module

    ranks = import_module("archcli.wings.running.api.profiling.ranks")
    monkeypatch.setattr(ranks, "available_memory", lambda: 500 << 20)  # of which torch takes 400 a process
    ranked(0, 2)
    done = cli("profile", tiny, "--tp", 2)
    assert (done.code, done.out) == (2, "")
    assert "error: 2 ranks of tiny in fp32 needs about" in done.err


def test_memory_of_sharded_weights():
    """By the arithmetic of FSDP2: halves of all, and whole at once what is gathered."""
    model = load_given({"vocab_size": 10, "d_model": 4, **LAYERS}).model
    counted = train_pass(model, 1, 2)
    # a norm of 4 and q, k, v, o of 16 each, in three layers; a table and a head of 40, a norm of 4
    layer, rest = 4 + 4 * 16, 40 + 40 + 4
    assert counted.params() == 3 * layer + rest
    zero = dict.fromkeys(("weights_bytes", "gradients_bytes", "activations_bytes", "cache_bytes"), 0)
    memory = sharded_memory({**zero, "torch_bytes": 7, "needed_bytes": 7}, model, counted, 2, "fp32")
    half = 4 * (3 * layer + rest) // 2
    whole = 4 * (rest + 2 * layer + 2 * layer)
    assert (memory["weights_bytes"], memory["gradients_bytes"]) == (half, half)
    assert (memory["activations_bytes"], memory["needed_bytes"]) == (whole, 2 * half + whole + 7)


@pytest.mark.torch
def test_more_ranks_than_gpus(cli, tiny, ranked, monkeypatch):
    import torch

    for number in (0, 1):
        monkeypatch.setattr(torch.cuda, "device_count", lambda number=number: number)
        ranked(0, 2)
        done = cli("profile", tiny, "--tp", 2, "--device", "cuda")
        assert (done.code, done.out) == (2, "")
        assert f"error: 2 ranks of this machine, a GPU each, and it has {number}\n" in done.err


@pytest.mark.long
@pytest.mark.torch
def test_a_process_by_itself_is_as_it_was(cli, tiny, ranked):
    """Under a launcher of one process, too."""
    ranked(0, 1)
    done = cli("profile", tiny, *SIZES, "--json")
    assert done.code == 0
    document = json.loads(done.out)
    assert "communication" not in document["totals"]["by_class"]
    assert not {"ranks", "communication"} & set(document["totals"])
    assert not {"tp", "dp"} & set(document["inputs"])
    assert "slowest_s" not in document["rows"][0]
