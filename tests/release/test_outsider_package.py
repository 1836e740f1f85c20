"""A package of somebody else, installed by pip: its subcommand, family, tower and column are archcli's.

`helpers/outsider` is the package that docs/extending.md shows.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from table import every_row

PACKAGE = Path(__file__).parents[1] / "helpers" / "outsider"
GUIDE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
EYES = {
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "image_size": 28,
    "patch_size": 14,
}
TEXT = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 100,
}
PROJECTOR = 48 * 64 + 64
PATCHES, POSITIONS = 3 * 14 * 14 * 48 + 48, 4 * 48
BLOCK = 4 * (48 * 48 + 48) + 2 * (2 * 48) + (48 * 64 + 64) + (64 * 48 + 48)
HEAD = 48 + BLOCK - 2 * 48
"""SigLIP's pooling: a query, attention, a norm and a network."""
TOWER = PATCHES + POSITIONS + BLOCK + 2 * 48 + HEAD
"""Parameters of SigLIP's encoder: patches, positions, a block, the norm behind it, the pooling."""


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Ask archcli a command line where the package is installed."""
    folder = tmp_path_factory.mktemp("site")
    install = ["--no-deps", "--no-build-isolation", "--no-index", "--target", folder, PACKAGE]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *install], check=True, timeout=300)

    def ask(*args, cwd=None):
        done = subprocess.run(
            [sys.executable, "-m", "archcli", *args],
            env={**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=cwd,
        )
        return done.returncode, done.stdout, done.stderr

    return ask


@pytest.mark.long
def test_its_command_is_listed_and_run(asked):
    assert "sizes  Of the package archcli-eyes." in asked("-h")[1]
    assert asked("sizes", "gpt2", "--unit", "4") == (0, f"gpt2: {124_439_808 * 4:,} bytes\n", "")
    code, _, err = asked("sizes", "gpt2", "--unit", "0")
    assert (code, "at least one byte" in err) == (2, True)


CONFIGS = {
    "a family of its own": {"model_type": "eyes", "architectures": ["EyesForCausalLM"], **TEXT},
    "a wrapper of archcli": {
        "model_type": "deepseek_vl_hybrid",
        "text_config": {"model_type": "llama", **TEXT},
        "high_res_vision_config": {},
    },
}


@pytest.mark.long
@every_row(("name", "config"), CONFIGS.items())
def test_its_tower_is_counted(name, config, asked, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**config, "vision_config": EYES}))
    code, out, err = asked("params", str(tmp_path), "--json")
    assert (code, err) == (0, "")
    parts = json.loads(out)["totals"]["by_part"]
    assert (parts["vision_tower"], parts["projector"]) == (TOWER, PROJECTOR)


@pytest.mark.long
def test_its_column_is_one_of_survey(asked):
    asking = ("survey", "gpt2", "--no-presets", "--columns", "params,table_share")
    row = json.loads(asked(*asking, "--json")[1])["rows"][0]
    assert row["table_share"] == 50257 * 768 / 124_439_808
    assert "input table" in asked(*asking)[1]
    code, _, err = asked("survey", "gpt2", "--columns", "table_shares")
    assert (code, "unknown column" in err) == (2, True)


def test_the_guide_shows_it():
    for file in ("pyproject.toml", "archcli_eyes.py"):
        assert (PACKAGE / file).read_text(encoding="utf-8") in GUIDE, file
