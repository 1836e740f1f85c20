"""Videos: tokens and FLOPs of their frames are those that transformers' classes have."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from oracle.regenerate_videos import FIGURES, figures
from table import sampled_rows

WRAPPERS = json.loads(FIGURES.with_name("wrappers.json").read_text())
VIDEOS = json.loads(FIGURES.read_text())
STATED = [name for name in VIDEOS if name.endswith("-stated")]
CLASS_DEFAULTS = ["qwen2-vl", "qwen2.5-vl", "qwen3-vl", "qwen3.5", "glm-4.1v"]


@pytest.fixture
def folder(tmp_path):
    def made(name, *, file="video_preprocessor_config.json", settings=None):
        entry = VIDEOS[name]
        (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
        if settings is None:
            settings = {"size": entry["size"]}
            if name == "smolvlm":
                settings = {"max_image_size": {"longest_edge": entry["size"]["height"]}}
        (tmp_path / file).write_text(json.dumps(settings))
        return tmp_path

    return made


@sampled_rows("name", VIDEOS, 4)
def test_tokens_and_flops_are_the_class_s(name, folder):
    entry = VIDEOS[name]
    read = folder(name)
    for size, seen in zip(entry["videos"], entry["seen"], strict=True):
        [medium] = archcli.count_flops(read, video=[tuple(size)]).totals["media"]
        assert (medium["kind"], medium["size"]) == ("video", size)
        assert (medium["tokens"], medium["matmul_flops"]) == (seen["features"], seen["flops"])


@sampled_rows("name", CLASS_DEFAULTS, 4)
def test_without_a_file_bounds_are_the_class_s(name, tmp_path):
    entry = VIDEOS[name]
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
    for size, seen in zip(entry["videos"], entry["seen"], strict=True):
        [medium] = archcli.count_flops(tmp_path, video=[tuple(size)]).totals["media"]
        assert (medium["tokens"], medium["matmul_flops"]) == (seen["features"], seen["flops"])


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", STATED)
def test_without_a_file_of_videos_that_of_images_holds(name, folder):
    entry = VIDEOS[name]
    read = folder(name, file="preprocessor_config.json")
    for size, seen in zip(entry["videos"], entry["seen"], strict=True):
        assert archcli.count_flops(read, video=[tuple(size)]).totals["media"][0]["tokens"] == seen["features"]


@pytest.mark.long
@pytest.mark.parametrize("name", VIDEOS)
def test_transformers_still_says_so(name):
    assert figures(VIDEOS[name]) == {"seen": VIDEOS[name]["seen"]}


def test_8_frames_of_448_through_qwen2_5_vl_7b_by_hand():
    """4 pieces of 32 x 32 patches of 14 x 14 x 3 x 2; D 1280, F 3420; 28 of 32 layers see 64 patches."""
    config = WRAPPERS["qwen2.5-vl-7b"]["config"]
    patches = 2 * 4096 * 1176 * 1280
    matrices = 32 * 2 * 4096 * (4 * 1280**2 + 3 * 1280 * 3420)
    whole = 4 * 4 * 4 * 1024**2 * 1280
    windows = 28 * 4 * 16 * 4 * 64**2 * 1280
    merger = 2 * 1024 * (5120**2 + 5120 * 3584)
    totals = archcli.count_flops(config, video="8x448x448", seq_len=10).totals
    tower = patches + matrices + whole + windows
    [medium] = totals["media"]
    assert medium["by_part"] == {"vision_tower": tower, "projector": merger}
    assert (tower, merger) == (5_296_483_205_120, 91_268_055_040)
    assert totals["prompt_tokens"] == 10 + 4 * 16 * 16


@pytest.mark.long
def test_every_command_reads_videos():
    config = VIDEOS["qwen2.5-vl"]["config"]
    tokens = VIDEOS["qwen2.5-vl"]["seen"][0]["features"]
    options = {"image": "56x56", "video": ["8x448x448", (8, 448, 448)]}
    for answer in (
        archcli.count_kv_cache(config, 10, **options),
        archcli.count_memory(config, "serve", seq_len=10, **options),
        archcli.count_flops(config, seq_len=10, **options),
        archcli.predict(config, "h100-sxm", phase="prefill", seq_len=10, **options),
    ):
        assert [entry["kind"] for entry in answer.totals["media"]] == ["image", "video", "video"]
        assert answer.totals["prompt_tokens"] == 10 + 4 + 2 * tokens


def test_frames_are_read_as_a_batch_of_pieces():
    """8 frames are 4 pieces of 32 x 32 patches, as 4 images are; tables of angles are there once."""
    config = VIDEOS["qwen2.5-vl"]["config"]
    video, images = (
        archcli.count_memory(config, "train", seq_len=10, **options).totals
        for options in ({"video": "8x448x448"}, {"image": ["448x448"] * 4})
    )
    assert video["towers"]["features_bytes"] == images["towers"]["features_bytes"] == 4 * 256 * 32 * 2
    assert video["towers"]["kept_bytes"] < images["towers"]["kept_bytes"]
    assert video["prompt_tokens"] == images["prompt_tokens"] == 10 + 4 * 16 * 16


@pytest.mark.parametrize(
    ("name", "video", "what"),
    [
        ("qwen3-vl", "1x448x448", "a video of 1 frames is not read: a patch reaches through 2"),
        ("qwen2-vl", "8x10x4000", "a video of 10 x 4000 is not read"),
        ("qwen2-vl", "448x448", "'448x448' is no size of a video"),
    ],
)
def test_what_is_not_read_is_refused_in_a_line(name, video, what):
    with pytest.raises(ArchError) as refused:
        archcli.count_flops(VIDEOS[name]["config"], video=video)
    assert refused.value.problems[0].what.startswith(what)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("qwen3-vl", {"cap_pixels_per_frame": True}),
        ("internvl", {"size": {"height": 98, "width": 112}}),
        ("smolvlm", {"max_image_size": {"longest_edge": 112}}),
        ("llava-onevision", {"size": {"height": 112, "width": 112}}),
    ],
)
def test_a_rule_that_is_not_known_leaves_videos_out(name, settings, folder):
    """7 rows of patches are no whole blocks of 2 x 2; the class of OneVision pools the tower's own rows."""
    read = folder(name, settings=settings)
    with pytest.raises(ArchError, match="reads text and image"):
        archcli.count_flops(read, video="8x448x448")
    assert archcli.count_params(read).totals["by_part"]["vision_tower"] > 0
