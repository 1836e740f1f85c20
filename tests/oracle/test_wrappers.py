"""Multimodal models: parameters by part, tokens and FLOPs of images are those of transformers' classes."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from oracle.regenerate_wrappers import FIGURES, figures
from table import sampled_rows

WRAPPERS = json.loads(FIGURES.read_text())
WITH_IMAGES = [name for name, entry in WRAPPERS.items() if entry["images"]]


@pytest.fixture
def folder(tmp_path):
    def made(name, processor=None):
        entry = WRAPPERS[name]
        (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
        settings = entry["processor"] if processor is None else processor
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
        return tmp_path

    return made


@sampled_rows("name", WRAPPERS, 4)
def test_parameters_by_part_are_the_class_s(name):
    entry = WRAPPERS[name]
    totals = archcli.count_params(entry["config"]).totals
    assert totals["by_part"] == entry["params"]
    assert totals["params_with_towers"] == sum(entry["params"].values())
    assert totals["params"] == entry["params"]["language_model"]


@pytest.mark.parametrize("name", WITH_IMAGES)
def test_tokens_and_flops_of_images_are_the_class_s(name, folder):
    entry = WRAPPERS[name]
    read = folder(name)
    for size, seen in zip(entry["images"], entry["seen"], strict=True):
        [medium] = archcli.count_flops(read, image=[tuple(size)]).totals["media"]
        assert (medium["tokens"], medium["matmul_flops"]) == (seen["features"], seen["flops"])
        assert sum(medium["by_part"].values()) == seen["flops"]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", WRAPPERS)
def test_transformers_still_says_so(name):
    assert figures(WRAPPERS[name]) == {key: WRAPPERS[name][key] for key in ("params", "seen")}


def test_qwen3_vl_8b_at_448_by_hand(folder):
    """784 patches of 16 x 16 x 3 x 2 frames, D 1152, F 4304, 27 layers; 196 tokens through 4 mergers."""
    totals = archcli.count_flops(folder("qwen3-vl-8b"), image="448x448", seq_len=10).totals
    patches = 2 * 784 * 1536 * 1152
    matrices = 27 * 2 * 784 * (4 * 1152**2 + 2 * 1152 * 4304)
    scores = 27 * 4 * 784**2 * 1152
    mergers = 4 * 2 * 196 * (4608**2 + 4608 * 4096)
    assert totals["media"] == [
        {
            "kind": "image",
            "size": [448, 448],
            "tokens": 196,
            "matmul_flops": patches + matrices + scores + mergers,
            "by_part": {"vision_tower": patches + matrices + scores, "projector": mergers},
        }
    ]
    text = archcli.count_flops(folder("qwen3-vl-8b"), seq_len=206).totals["matmul_flops"]
    assert totals["prompt_tokens"] == 10 + 196
    assert totals["matmul_flops"] == text
    assert totals["matmul_flops_with_towers"] == text + totals["media"][0]["matmul_flops"]


def test_windows_of_qwen2_5_vl_by_hand(folder):
    """34 x 46 patches in windows of 8 x 8, cut at the border: 8, 8, 8, 8, 2 by 8, 8, 8, 8, 8, 6."""
    [medium] = archcli.count_flops(folder("qwen2.5-vl-7b"), image="480x640").totals["media"]
    pairs = sum((a * b) ** 2 for a in (8, 8, 8, 8, 2) for b in (8, 8, 8, 8, 8, 6))
    tokens = 34 * 46
    scores = 4 * 1280 * (28 * pairs + 4 * tokens**2)
    matrices = 32 * 2 * tokens * (4 * 1280**2 + 3 * 1280 * 3420)
    assert medium["by_part"]["vision_tower"] == 2 * tokens * 1176 * 1280 + matrices + scores
    assert medium["tokens"] == tokens // 4


def test_a_break_follows_each_row_of_pixtral(folder):
    """480 x 640 by 16: 30 rows of 40 patches, and 30 breaks."""
    [medium] = archcli.count_flops(folder("pixtral-12b"), image="480x640").totals["media"]
    assert medium["tokens"] == 30 * 40 + 30


def test_media_are_tokens_of_the_prompt(folder):
    read = folder("llava-1.5-7b")
    plain = archcli.count_flops(read, phase="decode", past=10 + 2 * 576).totals
    after = archcli.count_flops(read, phase="decode", past=10, image=["336x336", "10x10"]).totals
    assert after["matmul_flops"] == after["matmul_flops_with_towers"] == plain["matmul_flops"]
    assert [entry["tokens"] for entry in after["media"]] == [576, 576]


def test_memory_has_the_tokens_of_text_and_of_images(folder):
    read = folder("llava-1.5-7b")
    both = archcli.count_memory(read, "prefill", seq_len=10, image="336x336").totals
    text = archcli.count_memory(read, "prefill", seq_len=586).totals
    # vectors of the image, 2 bytes a number, wait beside the language model
    assert both["peak_bytes"] == text["peak_bytes"] + 576 * 4096 * 2
    whole = sum(WRAPPERS["llava-1.5-7b"]["params"].values())
    assert both["parts"]["weights"] == text["parts"]["weights"] == 2 * whole


def test_the_memory_of_serving_qwen3_vl_8b_by_hand(folder):
    """1088 x 1920 pixels: 68 x 120 patches of 16, 2,040 tokens beside 2,048 of text, through 36 layers."""
    read = folder("qwen3-vl-8b")
    totals = archcli.count_memory(read, "serve", image="1080x1920", engine="sglang").totals
    weights = 2 * (8_190_735_360 + 415_891_440 + 160_496_896)
    cache = 4088 * 36 * 2 * 8 * 128 * 2
    waiting = 4 * 2040 * 4096 * 2
    prefill = 4088 * 2 * (5 * 4096 + 3 * 12288 + 2 * 64) + 4088 * 8
    assert totals["prompt_tokens"] == 2048 + 34 * 60 == 4088
    assert totals["towers"]["weights_bytes"] == {"vision_tower": 831_782_880, "projector": 320_993_792}
    assert totals["towers"]["features_bytes"] == waiting
    parts = {name: size for name, size in totals["parts"].items() if size}
    assert parts == {"weights": weights, "temporaries": waiting + prefill, "cache": cache}
    assert totals["peak_bytes"] == 18_673_818_016
    tower, _ = totals["moments"]
    # of the states behind layers 8, 16 and 24, in the place of what they become: 8,160 patches, 1,152 wide
    states = 3 * 8160 * 1152 * 2 - 3 * 2040 * 4096 * 2
    assert (tower["moment"], tower["peak_bytes"]) == ("vision_tower", 18_404_173_280 + states)


def test_a_processor_that_is_no_object_is_said(folder):
    read = folder("llava-1.5-7b", processor=[1])
    assert archcli.count_flops(read, image="10x10").totals["media"][0]["tokens"] == 576


@pytest.mark.parametrize(
    ("config", "image", "what"),
    [
        ("qwen2-vl-7b", "10x4000", "an image of 10 x 4000 is not read"),
        (
            {"model_type": "aria", "text_config": {"hidden_size": 2560}, "vision_config": {"hidden_size": 0}},
            "8x8",
            "<mapping> has parts that are not known: vision_config",
        ),
    ],
)
def test_what_is_not_known_is_refused_in_a_line(config, image, what):
    given = WRAPPERS[config]["config"] if isinstance(config, str) else config
    with pytest.raises(ArchError) as refused:
        archcli.count_flops(given, image=image)
    assert refused.value.problems[0].what.startswith(what)


@pytest.mark.parametrize(
    ("name", "changes", "what"),
    [
        ("internvl3-2b-hf", {"max_patches": 10**30}, "an image is not cut into up to"),
        ("llava-1.6-mistral-7b", {"crop_size": 10**30}, "no tile of"),
    ],
)
def test_a_hostile_processor_is_an_error(folder, name, changes, what):
    read = folder(name, processor={**WRAPPERS[name]["processor"], **changes})
    with pytest.raises(ArchError, match=what):
        archcli.count_flops(read, image="480x640")


@pytest.mark.parametrize("block", [0, [], {}, [None], "x"])
def test_a_tower_that_is_not_understood_is_not_counted(block):
    config = json.loads(json.dumps(WRAPPERS["kimi-k2.5"]["config"]))
    config["vision_config"]["merge_kernel_size"] = block
    totals = archcli.count_params(config).totals
    assert totals["params"] == WRAPPERS["kimi-k2.5"]["params"]["language_model"]


@pytest.mark.parametrize(
    ("name", "changes", "which"),
    [
        ("glm-4.1v-9b", {"size": {"shortest_edge": [1]}}, "least"),
        ("qwen2-vl-7b", {"max_pixels": "x"}, "most"),
    ],
)
def test_of_a_tower_whose_processor_is_wrong_no_image_is_read(folder, name, changes, which):
    read = folder(name, processor={**WRAPPERS[name]["processor"], **changes})
    assert archcli.count_params(read).totals["by_part"] == WRAPPERS[name]["params"]
    why = f"by preprocessor_config.json the {which} pixels of an image must be a whole number above 0"
    with pytest.raises(ArchError, match=why):
        archcli.count_flops(read, image="480x640")


def test_tiles_without_sizes_are_not_counted():
    config = {**WRAPPERS["llava-1.6-mistral-7b"]["config"], "image_grid_pinpoints": []}
    assert archcli.load(config).uncounted == ("vision_config",)
