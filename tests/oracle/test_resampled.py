"""Multimodal models with queries, tiles and tables: parameters by part, and what an image becomes."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from oracle.regenerate_resampled import FIGURES, figures
from table import every_row, sampled_rows

MODELS = json.loads(FIGURES.read_text())
WITH_IMAGES = [name for name, entry in MODELS.items() if entry["images"]]


@pytest.fixture
def folder(tmp_path):
    def made(name, **processor):
        entry = MODELS[name]
        (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
        settings = {**entry["processor"], **processor}
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
        return tmp_path

    return made


@sampled_rows("name", MODELS, 4)
def test_parameters_by_part_are_the_class_s(name):
    totals = archcli.count_params(MODELS[name]["config"]).totals
    assert totals["by_part"] == MODELS[name]["params"]
    assert totals["params"] == MODELS[name]["params"]["language_model"]


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize("name", WITH_IMAGES)
def test_tokens_and_flops_of_images_are_the_class_s(name, folder):
    read = folder(name)
    for size, seen in zip(MODELS[name]["images"], MODELS[name]["seen"], strict=True):
        [medium] = archcli.count_flops(read, image=[tuple(size)]).totals["media"]
        assert (medium["tokens"], medium["matmul_flops"]) == (seen["features"], seen["flops"])
        assert sum(medium["by_part"].values()) == seen["flops"]


@pytest.mark.sample(1)
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
@pytest.mark.parametrize("name", MODELS)
def test_transformers_still_says_so(name):
    assert figures(MODELS[name]) == {key: MODELS[name][key] for key in ("params", "seen")}


def test_an_image_that_cross_attention_reads_is_one_token_of_the_prompt(folder):
    """4 tiles of 4 x 4 patches and a class token; they are padded to 24 each."""
    totals = archcli.count_flops(folder("mllama"), image="56x56", seq_len=10).totals
    [medium] = totals["media"]
    assert medium["tokens"] == 4 * 17
    assert totals["prompt_tokens"] == 10 + 1
    tokens, d, layers = 4 * 24, 32, 6
    patches = 2 * 4 * 16 * 14 * 14 * 3 * d
    matrices = layers * 2 * tokens * (4 * d * d + 2 * d * 40)
    scores = layers * 4 * tokens**2 * d
    pairs = 2 * tokens**2
    assert medium["by_part"]["vision_tower"] == patches + matrices + scores + pairs
    # three layers side by side
    assert medium["by_part"]["projector"] == 2 * 4 * 17 * 3 * d * 48


def test_tiles_of_the_nearest_size_are_those_of_command_a_vision(folder):
    """Each is as large as the image, or the arrangement that it is shrunk least for, and an overview."""
    read = folder("cohere2_vision", crop_to_patches=True, max_patches=6)
    tiles = {}
    for size in ("56x56", "57x56", "100x200", "300x500", "500x60"):
        [medium] = archcli.count_flops(read, image=size).totals["media"]
        tiles[size] = medium["tokens"] // 4
    # 57 rows need two tiles; 100 x 200 needs 2 x 4, and 2 x 3 is the least of shrinking; 500 x 60 needs 9 x 2
    assert tiles == {"56x56": 1, "57x56": 3, "100x200": 7, "300x500": 7, "500x60": 7}


@pytest.mark.parametrize(
    ("name", "image", "what"),
    [
        ("instructblip", "56x56", "the Q-Former reads the instruction too"),
        ("molmo2", "70x84", "how this model cuts images is not known"),
        ("idefics2-quarters", "1x9", "an image of 1 x 9 has no quarters"),
    ],
)
def test_an_image_whose_vectors_are_not_known_is_refused(folder, name, image, what):
    with pytest.raises(ArchError, match=what):
        archcli.count_flops(folder(name), image=image)


def test_queries_of_patches_that_have_none_are_refused(folder):
    config = {**MODELS["aria"]["config"], "projector_patch_to_query_dict": {"1225": 12}}
    read = folder("aria", max_image_size=980)
    (read / "config.json").write_text(json.dumps(config))
    with pytest.raises(ArchError, match="4,900 patches are not read; the projector reads 1,225 of them"):
        archcli.count_flops(read, image="980x980")


@every_row(
    ("name", "part", "key", "value"),
    [
        ("mllama", "vision_config", "vision_output_dim", 95),
        ("mllama", "vision_config", "intermediate_layers_indices", 3),
        ("florence2", "vision_config", "patch_prenorm", [True, True, True, True]),
        ("florence2", "vision_config", "num_heads", [3, 2, 3, 4]),
        ("florence2", "vision_config", "depths", [1]),
        ("florence2", "vision_config", "projection_dim", 47),
        ("idefics2", "perceiver_config", "hidden_size", 47),
        ("idefics2", "perceiver_config", "resampler_depth", "x"),
        ("blip-2", "qformer_config", "cross_attention_frequency", 0),
        ("molmo2", "vision_config", "num_position_embeddings", 7),
        ("molmo2", "adapter_config", "vision_feature_layer", 3),
        ("ovis2", "vision_config", "hidden_stride", 3),
        ("ovis2", "vision_config", "tokenize_function", "x"),
        ("aria", None, "projector_patch_to_query_dict", {"x": 1}),
        ("aria", None, "projector_patch_to_query_dict", [1]),
        ("vipllava", None, "vision_feature_layer", "x"),
        ("cohere2_vision", None, "alignment_intermediate_size", 61),
        ("llava_next_video", None, "spatial_pool_mode", "conv"),
    ],
)
def test_a_tower_that_is_not_understood_is_not_counted(name, part, key, value):
    config = json.loads(json.dumps(MODELS[name]["config"]))
    (config if part is None else config[part])[key] = value
    report = archcli.count_params(config)
    assert report.totals["params"] == MODELS[name]["params"]["language_model"]
    assert "by_part" not in report.totals
    assert any("vision_config" in note and "is not counted" in note for note in report.notes)
