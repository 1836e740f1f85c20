"""Encoders of images and sounds: parameters and FLOPs are those that transformers' classes have."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium, Request
from oracle.regenerate_towers import FIGURES, figures
from table import sampled_rows

TOWERS = json.loads(FIGURES.read_text())


def model(name):
    entry = TOWERS[name]
    return archcli.load({**entry["config"], "architectures": [entry["class"]]})


@sampled_rows("name", TOWERS, 4)
def test_parameters_and_flops_are_the_class_s(name):
    entry = TOWERS[name]
    totals = archcli.count_params(model(name)).totals
    assert totals["params"] == totals["params_with_towers"] == entry["params"]
    assert totals["by_part"] == {entry["part"]: entry["params"]}
    assert totals["params"] == entry.get("published", totals["params"])
    for size, flops in zip(entry["sizes"], entry["flops"], strict=True):
        counted = archcli.count_flops(
            model(name), Request(media=(Medium(entry["kind"], tuple(size)),))
        ).totals
        assert counted["matmul_flops"] == flops
        assert counted["media"][0]["by_part"] == {entry["part"]: flops}
        assert counted["media"][0]["size"] == size


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TOWERS)
def test_transformers_still_says_so(name):
    assert figures(TOWERS[name]) == {key: TOWERS[name][key] for key in ("params", "flops")}


def test_clip_l_336_by_hand():
    """576 patches of 14 x 14 x 3, 577 positions, D 1024, F 4096, 24 layers; a norm has 2 D."""
    config = {
        "model_type": "clip_vision_model",
        "architectures": ["CLIPVisionModel"],
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_size": 336,
        "patch_size": 14,
    }
    layer = 4 * 1024 * (1024 + 1) + 2 * 1024 * 4096 + 4096 + 1024 + 2 * 2 * 1024
    ends = 14 * 14 * 3 * 1024 + 1024 + 577 * 1024 + 2 * 2 * 1024
    assert archcli.count_params(config).totals["params"] == 24 * layer + ends
    totals = archcli.count_flops(config).totals
    patches = 2 * 576 * 588 * 1024
    matrices = 24 * 2 * 577 * (4 * 1024**2 + 2 * 1024 * 4096)
    scores = 24 * 4 * 577**2 * 1024
    assert totals["matmul_flops"] == patches + matrices + scores == 381_918_216_192
    assert totals["media"] == [
        {
            "kind": "image",
            "size": [336, 336],
            "tokens": 577,
            "matmul_flops": 381_918_216_192,
            "by_part": {"vision_tower": 381_918_216_192},
        }
    ]


def test_images_are_counted_in_the_order_of_the_options():
    one, two = archcli.count_flops(model("dinov2-base"), image=["224x224", (518, 518)]).totals["media"]
    assert (one["size"], two["size"]) == ([224, 224], [518, 518])
    both = archcli.count_flops(model("dinov2-base"), image=["224x224", "518x518"]).totals
    assert both["matmul_flops"] == sum(TOWERS["dinov2-base"]["flops"])


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("gpt2", {"image": "224x224"}, "gpt2 reads text alone"),
        ("vit-base-patch16-224-imagenet", {"image": "224"}, "'224' is no size of an image"),
        ("vit-base-patch16-224-imagenet", {"image": "8x900"}, "an image of 8 x 900 is smaller than a patch"),
        ("vit-base-patch16-224-imagenet", {"audio_frames": 100}, "this encoder reads no frames"),
        ("beit-base-224", {"image": "448x448"}, "an image of 448 x 448 is not read"),
        ("whisper-small-encoder", {"audio_frames": 100}, "100 frames are not read"),
    ],
)
def test_what_is_not_read_is_refused_in_a_line(name, options, what):
    with pytest.raises(ArchError) as refused:
        archcli.count_flops(model(name) if name in TOWERS else name, **options)
    assert refused.value.problems[0].what.startswith(what)
