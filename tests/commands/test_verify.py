"""`archcli verify`: its table, its exit code, its JSON, and what it says where torch is missing."""

import json
import re
import subprocess
import sys

import pytest
import torch

from archcli.ops import Linear
from archcli.ops.base import contraction

torch.set_num_threads(1)
SMALL = ("cs336-small", "--set", "n_layers=2", "-s", "8")


@pytest.mark.long
def test_agreement_ends_with_0(cli):
    done = cli("verify", *SMALL)
    assert (done.code, done.err) == (0, "")
    assert "all 18 comparisons agree" in done.out
    assert "✗" not in done.out
    assert "where" not in done.out.splitlines()[3]


@pytest.mark.long
def test_a_difference_ends_with_1_and_names_the_rows(cli, monkeypatch):
    def parts(op, x, weight=None):
        return (contraction("matmul", 2 * x[0] * x[1] * x[2] * op.out + (op.name == "k_proj"), [], 0),)

    monkeypatch.setattr(Linear, "parts", parts)
    done = cli("verify", *SMALL)
    assert (done.code, done.err) == (1, "")
    assert any("✗" in line and "layers.0.attention.k_proj ×2" in line for line in done.out.splitlines())


@pytest.mark.long
def test_json_has_the_fixed_names(cli):
    report = json.loads(cli("verify", *SMALL, "-b", "2", "--json").out)
    assert report["command"] == "verify"
    assert report["model"]["name"] == "cs336-small"
    assert report["inputs"] == {
        "batch_size": 2,
        "seq_len": 8,
        "source_len": None,
        "mla": None,
        "scan": None,
        "set": ["n_layers=2"],
    }
    uncounted = report["totals"].pop("uncounted")
    assert report["totals"] == {"comparisons": 18, "failed": 0}
    assert {"torch", "fvcore"} == set(uncounted)
    assert uncounted["torch"]["view"] > 100
    assert report["rows"][0] == {
        "witness": "torch's parameters",
        "what": "total",
        "ours": 34_238_208,
        "theirs": 34_238_208,
        "ok": True,
        "where": "",
    }
    assert [note.split(" for ")[0] for note in report["notes"]] == [
        "torch has no formula",
        "fvcore has no formula",
    ]


@pytest.mark.long
def test_what_a_reference_does_not_count_is_summed_up_and_listed_on_request(cli):
    brief, full = cli("verify", *SMALL).out, cli("verify", *SMALL, "--verbose").out
    assert max(len(line) for line in brief.splitlines() if line.startswith("note: torch has no")) < 120
    assert "_softmax_backward_data" not in brief
    assert "No formula in torch, and no matrix product\n" in full
    assert re.search(r"^_softmax_backward_data +\d+$", full, re.MULTILINE)


ENCODER = {
    "kind": "encoder",
    "vocab_size": 50,
    "d_model": 8,
    "norm": "layernorm",
    "groups": [
        {
            "n_layers": 2,
            "layer": {
                "kind": "post_norm",
                "attention": {"kind": "mha", "n_heads": 2, "causal": False},
                "ffn": {"kind": "mlp", "d_ff": 12},
            },
        }
    ],
}
T5 = {
    "architectures": ["T5ForConditionalGeneration"],
    "model_type": "t5",
    "vocab_size": 50,
    "d_model": 8,
    "d_kv": 3,
    "d_ff": 12,
    "num_layers": 2,
    "num_decoder_layers": 3,
    "num_heads": 4,
}


@pytest.mark.long
def test_an_encoder_agrees_without_prefill_and_decode(cli, tmp_path):
    path = tmp_path / "encoder.json"
    path.write_text(json.dumps(ENCODER))
    report = json.loads(cli("verify", path, "-s", "8", "--json").out)
    assert set(report["totals"].pop("uncounted")) == {"torch", "fvcore"}
    assert report["totals"] == {"comparisons": 10, "failed": 0}
    assert not [row for row in report["rows"] if "prefill" in row["what"] or "decode" in row["what"]]
    assert report["notes"][-1] == "An encoder caches nothing: there is no prefill and no decoding to verify."


@pytest.mark.long
def test_an_encoder_decoder_agrees_on_a_source_of_its_own_length(cli, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(T5))
    report = json.loads(cli("verify", path, "-s", "8", "--source-len", "5", "--json").out)
    assert set(report["totals"].pop("uncounted")) == {"torch", "fvcore"}
    assert report["totals"] == {"comparisons": 19, "failed": 0}
    assert report["inputs"]["source_len"] == 5
    (carried,) = [row for row in report["rows"] if row["what"] == "elements of the source, carried over"]
    assert (
        carried["ours"] == carried["theirs"] == 3 * 2 * 5 * 4 * 3
    )  # layers, keys and values, tokens, heads, width


@pytest.mark.long
def test_a_source_length_that_changes_nothing_is_noted(cli):
    assert (
        "note: --source-len has no effect: this model has no encoder."
        in cli("verify", *SMALL, "--source-len", "4").out
    )


def test_too_large_for_torch_is_bad_input(cli):
    done = cli("verify", "cs336-small", "--set", "n_layers=1000000000")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == "error: 1,000,000,000 layers are too many to build"


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("package", ["torch", "fvcore"])
def test_a_missing_package_is_one_line_and_2(package):
    code = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv = ['archcli', 'verify', *{SMALL!r}]; "
        "from archcli.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: this needs {package}, which is not installed\n")
    assert "  = help: pip install torch fvcore (on Linux about" in done.stderr
    assert done.stderr.endswith(f", then: archcli verify {' '.join(SMALL)}\n")
    assert "5 GB" in done.stderr
    assert "https://download.pytorch.org/whl/cpu" in done.stderr
