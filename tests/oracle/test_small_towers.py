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


def test_internvl_by_the_words_of_its_repository_is_that_of_transformers():
    entry = TOWERS["internvl-normed"]
    stated = dict(entry["config"]["vision_config"])
    vision = {
        **{
            key: value
            for key, value in stated.items()
            if key not in {"use_qk_norm", "image_size", "patch_size"}
        },
        "model_type": "intern_vit_6b",
        "image_size": 56,
        "patch_size": 14,
        "norm_type": "layer_norm",
        "qk_normalization": True,
        "qkv_bias": False,
    }
    chat = {
        "model_type": "internvl_chat",
        "architectures": ["InternVLChatModel"],
        "vision_config": vision,
        "llm_config": {**entry["config"]["text_config"], "architectures": ["Qwen2ForCausalLM"]},
        "dynamic_image_size": True,
        "max_dynamic_patch": 6,
        "use_thumbnail": True,
    }
    parts = archcli.count_params(chat).totals["by_part"]
    assert {key: parts[key] for key in ("vision_tower", "projector")} == {
        key: entry["params"][key] for key in ("vision_tower", "projector")
    }
    one, seven = archcli.count_flops(chat, image=["56x56", "112x168"]).totals["media"]
    assert (one["tokens"], one["matmul_flops"]) == (entry["tokens"], entry["flops"])
    assert (seven["tokens"], seven["matmul_flops"]) == (7 * entry["tokens"], 7 * entry["flops"])
