"""`archcli export --mup`: the multipliers of the `mup` package for a Llama, a GPT-2 and a mixture."""

import json
import math
from pathlib import Path

import pytest

import archcli
from archcli.load.huggingface.importer import weight_map
from archcli.wings.shapes.export.mup import mup

RECORD = json.loads((Path(__file__).parents[1] / "oracle/mup.json").read_text())
"""What the package says; made by `tests/oracle/regenerate_mup.py`."""
TEXT = """vocab_size: 96
d_model: {d_model}
max_seq_len: 64
norm: rmsnorm
embedding: {{tied: false}}
groups:
  - n_layers: {layers}
    layer:
      kind: pre_norm
      attention: {{kind: mha, n_heads: {heads}, head_dim: {width}}}
      ffn: {{kind: moe, n_experts: {experts}, top_k: 2, expert: {{kind: glu, d_ff: 64}}}}
"""
SIZES = {"d_model": 32, "heads": 2, "width": 16, "layers": 1, "experts": 4}


def small(folder, name, **changed):
    """A small model, written to a YAML."""
    file = folder / f"{name}.yaml"
    file.write_text(TEXT.format(**{**SIZES, **changed}))
    return file


@pytest.mark.parametrize("kind", sorted(RECORD))
def test_multipliers_are_those_of_the_package(kind):
    held = RECORD[kind]
    answer = mup(archcli.load(held["config"]), archcli.load(held["base"]), "base")
    names, seen = weight_map(held["config"]), set()
    for name, theirs in held["tensors"].items():
        for ours in names.find(name).names:
            assert list(answer["tensors"][ours][2:]) == pytest.approx(theirs, rel=1e-12, abs=0), name
            seen.add(ours)
    assert seen == set(answer["tensors"])
    outputs = answer["outputs"]
    theirs = {}
    for path, factor in held["readouts"].items():
        [ours] = names.find(f"{path}.weight").names
        theirs["lm_head" if path == "lm_head" else ours.removesuffix(".weight")] = factor
    assert outputs == pytest.approx(theirs, rel=1e-12, abs=0)


def test_scores_are_divided_by_the_width_of_a_head_not_by_its_root(tmp_path, cli):
    wide = small(tmp_path, "wide", d_model=128, width=64)
    answer = json.loads(cli("export", wide, "--mup", small(tmp_path, "base")).out)
    # sqrt(16) / 64: as in the base, 1 / sqrt(16), where both are 16 wide
    assert answer["attention_scales"] == {"layers.0.attention.attend": math.sqrt(16) / 64}
    more = small(tmp_path, "more", d_model=128, heads=8)
    answer = json.loads(cli("export", more, "--mup", tmp_path / "base.yaml").out)
    assert answer["attention_scales"] == {"layers.0.attention.attend": 1 / math.sqrt(16)}


def test_a_file_stands_beside_the_config_and_nothing_is_half_written(tmp_path, cli):
    base, wide = small(tmp_path, "base"), small(tmp_path, "wide", d_model=64)
    written = tmp_path / "wide.py"
    assert cli("export", wide, "--mup", base, "--to", "torch", "-o", written).code == 0
    tensors = json.loads((tmp_path / "mup.json").read_text())["tensors"]
    assert tensors["lm_head.weight"]["base_shape"] == [96, 32]
    again = tmp_path / "again.yaml"
    done = cli("export", wide, "--mup", base, "--to", "yaml", "-o", again)
    assert (done.code, again.exists()) == (2, False)
    assert "mup.json exists" in done.err


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"layers": 2}, "is no base of the model: they differ in layers.1.attention_norm.weight"),
        ({"d_model": 64, "experts": 8}, "layers.0.ffn.experts.gate_proj"),
    ],
)
def test_another_architecture_is_no_base(tmp_path, cli, changed, named):
    base, wide = small(tmp_path, "base"), small(tmp_path, "wide", **changed)
    done = cli("export", wide, "--mup", base, "-o", tmp_path / "new")
    assert (done.code, done.out, (tmp_path / "new").exists()) == (2, "", False)
    assert named in done.err
