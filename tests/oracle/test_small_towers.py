"""Small multimodal models: parameters by part, tokens and FLOPs are those of transformers' classes."""

import json

import pytest

import archcli
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue
from archcli.wings.media.huggingface.processing import image_settings
from archcli.wings.media.huggingface.towers.source import TowerSource
from archcli.wings.media.huggingface.towers.vision import phi4_multimodal
from oracle.regenerate_small_towers import FIGURES, NAMES, figures
from table import sampled_rows

TOWERS = json.loads(FIGURES.read_text())


@pytest.fixture
def folder(tmp_path):
    def made(name):
        entry = TOWERS[name]
        named = entry.get("class") or NAMES[entry["config"]["model_type"]]
        (tmp_path / "config.json").write_text(json.dumps({"architectures": [named], **entry["config"]}))
        settings = tmp_path / "preprocessor_config.json"
        settings.unlink(missing_ok=True)
        if entry["processor"]:
            settings.write_text(json.dumps(entry["processor"]))
        return tmp_path

    return made


@sampled_rows("name", TOWERS, 4)
def test_parameters_tokens_and_flops_are_the_class_s(name, folder):
    entry, read = TOWERS[name], folder(name)
    totals = archcli.count_params(read).totals
    assert totals["by_part"] == entry["params"]
    assert totals["params_with_towers"] == sum(entry["params"].values())
    assert totals["params"] == entry["params"]["language_model"]
    [medium] = archcli.count_flops(read, image=[tuple(entry["image"])]).totals["media"]
    assert (medium["tokens"], medium["matmul_flops"]) == (entry["tokens"], entry["flops"])


@pytest.mark.sample(1)
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


def plain(value):
    """The numbers of a mapping without their places."""
    value = value.value if isinstance(value, ConfigValue) else value
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def test_images_of_phi_4_by_hand():
    """An overview and a tile of 32 x 32 patches, two by two a token; each of 16 + 16 rows has an end.

    D 1152, F 4304, 27 layers, and the pooler, whose answer is not read.
    """
    whole = Config({"model_type": "phi4_multimodal", "vision_config": {}, "audio_config": {}})
    width = ConfigValue(3072, whole.places.start)
    tower = plain(phi4_multimodal(TowerSource(whole, *image_settings(whole), width, {})))
    block = {
        "kind": "pre_norm",
        "attention": {"kind": "mha", "n_heads": 1},
        "ffn": {"kind": "glu", "d_ff": 8},
    }
    read = archcli.load(
        {
            "vocab_size": 8,
            "d_model": 3072,
            "norm": "rmsnorm",
            "groups": [{"n_layers": 1, "layer": block}],
            "towers": [tower],
        }
    )
    [medium] = archcli.count_flops(read, image="448x448").totals["media"]
    d, d_ff, tokens = 1152, 4304, 2 * 1024
    layers = 27 * (2 * tokens * (4 * d**2 + 2 * d * d_ff) + 2 * 4 * 1024**2 * d)
    pooler = 2 * (2 * 2 * d**2 + 2 * 2 * 1024 * d**2 + 4 * 1024 * d + 2 * 2 * d * d_ff)
    rows = 16 * 17 + 1 + 16 * 17
    assert medium["tokens"] == rows == 545
    assert medium["by_part"] == {
        "vision_tower": 2 * tokens * 588 * d + layers + pooler,
        "projector": 2 * rows * (d * 3072 + 3072**2),
    }
    assert archcli.count_params(read).totals["by_part"]["vision_tower"] == 428_567_744
