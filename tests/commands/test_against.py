"""`params --against` on real files of tiny models.

What it prints, its exit codes, and changes it must see.
"""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

from parity.witness import witness
from saved import edited

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend


@pytest.mark.long
def test_the_table_and_its_counts(folder, cli):
    path = folder("deepseek-v3")
    done = cli("params", path, "--against", path)
    assert done.code == 0
    model = witness("deepseek-v3").model
    unique = sum(tensor.numel() for tensor in model.parameters())
    stored = sum(tensor.numel() for tensor in load_file(path / "model.safetensors").values())
    assert stored == unique + 8  # the correction of 8 experts' scores
    lines = [line.split() for line in done.out.splitlines()]
    for what, value in (("unique", unique), ("stored", stored)):
        assert next(line for line in lines if line[:1] == [what])[1] == f"{value:,}"
    assert "all tensors have their name and shape" in done.out
    assert any(line[:4] == ["buffer:", "stored,", "not", "trained"] for line in lines)


@pytest.mark.long
def test_rows_of_json_fold_layers_and_keep_the_first_name(folder, cli):
    path = folder("gpt2")
    rows = json.loads(cli("params", path, "--against", path, "--json").out)["rows"]
    (row,) = [row for row in rows if row["name"].endswith("attn.c_attn.weight")]
    assert row == {
        "status": "same",
        "name": "transformer.h.*.attn.c_attn.weight",
        "ours": ", ".join(f"layers.*.attention.{which}_proj.weight" for which in "qkv"),
        "shape": [32, 96],
        "needed": None,
        "reason": "",
        "holder": "",
        "ok": True,
        "times": 2,
        "elements": 2 * 32 * 96,
        "first": "transformer.h.0.attn.c_attn.weight",
    }


def drop(tensors):
    del tensors["transformer.h.1.ln_2.bias"]


def rename(tensors):
    tensors["transformer.h.1.ln_3.bias"] = tensors.pop("transformer.h.1.ln_2.bias")


def reshape(tensors):
    tensors["transformer.h.1.mlp.c_fc.weight"] = tensors["transformer.h.1.mlp.c_fc.weight"].T


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (drop, ["missing", "transformer.h.1.ln_2.bias", "32"]),
        (rename, ["unexpected", "transformer.h.1.ln_3.bias", "32"]),
        (reshape, ["shape", "transformer.h.1.mlp.c_fc.weight", "40×32", "32×40"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_changed_file_is_told_by_name(change, told, folder, cli):
    path = edited(folder("gpt2"), change)
    done = cli("params", path, "--against", path)
    assert (done.code, done.err) == (1, "")
    assert any(set(told) <= set(line.split()) for line in done.out.splitlines())
    done = cli("verify", path, "--weights", path)
    assert done.code == 1
    assert "logits were not compared" in done.out
    assert told[1] in done.out


def test_weights_of_another_model_are_told(folder, cli):
    done = cli("params", "gpt2", "--against", folder("llama"))
    assert done.code == 1
    assert "not all tensors have their name and shape" in done.out


@pytest.mark.long
def test_a_yaml_finds_the_names_in_the_config_beside_the_weights(folder, cli, tmp_path):
    path = folder("llama")
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(cli("show", path, "--format", "yaml").out)
    assert cli("verify", yaml, "--weights", path, "-s", "9").code == 0
    done = cli("params", yaml, "--against", path)
    assert (done.code, "all tensors have their name and shape" in done.out) == (0, True)
    (path / "config.json").unlink()
    done = cli("params", yaml, "--against", path)
    assert (done.code, "names were not compared" in done.out) == (0, True)
    done = cli("params", yaml, "--set", "d_ff=41", "--against", path)
    assert done.code == 1
    assert "elements, and the architecture has" in done.out
    done = cli("verify", yaml, "--weights", path)
    assert (done.code, done.out) == (2, "")
    assert "no config.json beside the weights" in done.err


def test_names_of_a_file_are_never_escape_sequences(folder, cli):
    path = edited(folder("llama"), lambda tensors: tensors.update({"\x1b[31mred\n.7": torch.ones(1)}))
    done = cli("params", path, "--against", path)
    assert done.code == 1
    assert "\x1b" not in done.out


@pytest.mark.long
def test_no_tensor_is_read_by_params(folder, cli, monkeypatch):
    path = folder("llama")
    monkeypatch.setattr("archcli.load.checkpoint.safetensors.read_tensor", None)
    assert cli("params", path, "--against", path).code == 0
    code = (
        f"import sys; sys.argv = ['archcli', 'params', {str(path)!r}, '--against', {str(path)!r}]; from "
        "archcli.cli import main\n"
    )
    code += "try: main()\nexcept SystemExit: pass\n"
    code += (
        "print([name for name in ('torch', 'transformers', 'safetensors', 'numpy', 'huggingface_hub') if "
        "name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.splitlines()[-1] == "[]"
