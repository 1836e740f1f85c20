"""`archcli profile` as a user runs it: one run of a tiny model, and what is refused before torch is asked."""

import json
import os
import subprocess
import sys

import pytest

from table import every_row

pytestmark = pytest.mark.torch


@pytest.mark.long
def test_json_has_the_fixed_names(cli, tiny):
    done = cli("profile", tiny, "-s", 8, "--phase", "train", "--pairs", 1, "--threads", 1, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["command"] == "profile"
    assert {"wall_s", "attributed_share", "overhead_ratio", "by_class", "memory"} <= set(found["totals"])
    for entry in found["totals"]["by_class"].values():
        assert {"flop_share", "byte_share", "time_share"} <= set(entry)
    assert sum(entry["time_share"] for entry in found["totals"]["by_class"].values()) == pytest.approx(1.0)
    assert found["totals"]["operations_differing"] == found["totals"]["launches_lost"] == []
    assert found["totals"]["device"] is None
    assert found["inputs"]["hide_launch"] is False
    assert found["totals"]["machine"]["threads"] == 1
    assert {"layers.*.attention.attend", "lm_head"} <= {row["path"] for row in found["rows"]}


@pytest.mark.long
@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("length", "code", "words"),
    [(5, 0, "to the loss of random targets"), (6, 2, "--seq-len a multiple of 20")],
    ids=["whole", "broken"],
)
def test_a_run_has_whole_tokens_in_every_cluster(cli, tiny, length, code, words):
    tiny.write_text(
        f"{tiny.read_text()}head: {{kind: adaptive, cutoffs: [20, 40], cluster_shares: [0.7, 0.25, 0.05]}}\n"
    )
    done = cli(
        "profile", tiny, "-b", 4, "-s", length, "--phase", "train", "--pairs", 1, "--threads", 1, "--json"
    )
    assert done.code == code
    assert words in done.out + done.err
    if code == 0:
        assert all(isinstance(row["flops"], int) for row in json.loads(done.out)["rows"])


REFUSED = {
    "too large in any part": (
        ["gpt2", "-b", "10000000"],
        "does not fit one kind of layer at a time either: embedding and head need ",
    ),
    "too large when cut": (
        ["gpt2", "-b", "10000000", "--layers", "1"],
        "gpt2 (cut to 1 of 12 layers) in fp32 needs about ",
    ),
    "beyond its positions": (
        ["gpt2", "-s", "1025"],
        "embedding.positions has 1024 positions, and 1025 tokens are asked for",
    ),
    "training after cached tokens": (
        ["gpt2", "--phase", "train", "--past", "3"],
        "training starts from an empty cache",
    ),
    "launches of a CPU hidden": (
        ["gpt2", "--hide-launch"],
        "--hide-launch is for a GPU, to which kernels are launched; a CPU runs them",
    ),
    "launches hidden of a variant": (
        ["gpt2", "--hide-launch", "--vs", "dtype=bf16"],
        "--hide-launch is for a GPU",
    ),
    "a card that is not there": (
        ["gpt2", "--device", "cuda:99"],
        "cuda:99 is not on this machine, which has",
    ),
    "a card that is not there, launches hidden": (
        ["gpt2", "--device", "cuda:99", "--hide-launch"],
        "cuda:99 is not on this machine",
    ),
    "a second CPU": (["gpt2", "--device", "cpu:0"], "device 'cpu:0' is none of cpu, cuda, cuda:N"),
    "a card without its number": (
        ["gpt2", "--device", "cuda:", "--hide-launch"],
        "device 'cuda:' is none of cpu, cuda, cuda:N",
    ),
    "no device": (["gpt2", "--device", "gpu"], "device 'gpu' is none of cpu, cuda, cuda:N"),
    "unknown dtype": (["gpt2", "--dtype", "int4"], "int4"),
}


@pytest.mark.long
@every_row(("args", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_run_is_refused(cli, args, words):
    done = cli("profile", *args)
    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.long
def test_a_missing_torch_is_told_in_a_line(tmp_path, tiny):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')\n")
    command = [sys.executable, "-m", "archcli", "profile", str(tiny), "-s", "4"]
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "  = help: pip install torch fvcore " in done.stderr
    assert done.stderr.endswith(f", then: archcli profile {tiny} -s 4\n")
    assert "Traceback" not in done.stderr
