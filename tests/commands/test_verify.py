"""`archcli verify`: its table, its exit code, its JSON, and what it says where torch is missing."""

import json
import subprocess
import sys

import pytest
import torch

from archcli.ops import Linear
from archcli.ops.base import contraction

torch.set_num_threads(1)
SMALL = ("cs336-small", "--set", "n_layers=2", "-s", "8")


def test_agreement_ends_with_0(cli):
    done = cli("verify", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert "all 18 comparisons agree" in done.out
    assert "✗" not in done.out
    assert "where" not in done.out.splitlines()[3]


def test_a_difference_ends_with_1_and_names_the_rows(cli, monkeypatch):
    def parts(op, x, weight=None):
        return (contraction("matmul", 2 * x[0] * x[1] * x[2] * op.out + (op.name == "k_proj"), [], 0),)

    monkeypatch.setattr(Linear, "parts", parts)
    done = cli("verify", *SMALL)
    assert (done.code, done.err) == (1, "")
    assert any("✗" in line and "layers.0.attention.k_proj ×2" in line for line in done.out.splitlines())


def test_json_has_the_fixed_names(cli):
    report = json.loads(cli("verify", *SMALL, "-b", "2", "--json").out)
    assert report["command"] == "verify"
    assert report["model"]["name"] == "cs336-small"
    assert report["inputs"] == {"batch_size": 2, "seq_len": 8, "set": ["n_layers=2"]}
    assert report["totals"] == {"comparisons": 18, "failed": 0}
    assert report["rows"][0] == {
        "witness": "torch's parameters",
        "what": "total",
        "ours": 34_238_208,
        "theirs": 34_238_208,
        "ok": True,
        "where": "",
    }
    assert [note.split(" for ")[0] for note in report["notes"]] == ["torch has no formula", "fvcore has no formula"]


def test_too_large_for_torch_is_bad_input(cli):
    done = cli("verify", "cs336-small", "--set", "n_layers=1000000000")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == "error: 1,000,000,000 layers are too many to build"


@pytest.mark.parametrize("package", ["torch", "fvcore"])
def test_a_missing_package_is_one_line_and_2(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv = ['archcli', 'verify', *{SMALL!r}]; from archcli.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"error: this needs {package}, which is not installed",
        "  = help: pip install 'archcli[torch]' adds it",
    ]
