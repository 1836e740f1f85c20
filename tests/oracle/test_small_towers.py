"""Small multimodal models: parameters by part, tokens and FLOPs are those of transformers' classes."""

import json

import pytest

import archcli
from oracle.regenerate_small_towers import FIGURES, NAMES, figures
from table import every_row

TOWERS = json.loads(FIGURES.read_text())


@pytest.fixture
def folder(tmp_path):
    def made(name):
        entry = TOWERS[name]
        named = entry.get("class") or NAMES[entry["config"]["model_type"]]
        (tmp_path / "config.json").write_text(json.dumps({"architectures": [named], **entry["config"]}))
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(entry["processor"]))
        return tmp_path

    return made


@every_row("name", TOWERS)
def test_parameters_tokens_and_flops_are_the_class_s(name, folder):
    entry, read = TOWERS[name], folder(name)
    totals = archcli.count_params(read).totals
    assert totals["by_part"] == entry["params"]
    assert totals["params_with_towers"] == sum(entry["params"].values())
    assert totals["params"] == entry["params"]["language_model"]
    [medium] = archcli.count_flops(read, image=[tuple(entry["image"])]).totals["media"]
    assert (medium["tokens"], medium["matmul_flops"]) == (entry["tokens"], entry["flops"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", TOWERS)
def test_transformers_still_says_so(name):
    made = figures(TOWERS[name])
    assert made == {key: TOWERS[name][key] for key in made}
