"""Encoders of images by themselves: a processor's file says to which size images are resized."""

import json

import numpy as np
import pytest
import transformers

import archcli
from archcli.errors import ArchError
from table import every_row

VIT = {
    "model_type": "vit",
    "architectures": ["ViTModel"],
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 8,
}
CONVNEXT = {
    "model_type": "convnext",
    "architectures": ["ConvNextModel"],
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "image_size": 64,
}
SETTINGS = {
    "height and width": (VIT, "ViTImageProcessorPil", {"size": {"height": 48, "width": 64}}),
    "a square": (VIT, "ViTImageProcessorPil", {"size": 56}),
    "cut": (
        VIT,
        "CLIPImageProcessorPil",
        {"size": {"shortest_edge": 60}, "crop_size": {"height": 56, "width": 48}, "do_center_crop": True},
    ),
    "what is left out": (VIT, "ViTImageProcessorPil", {"do_normalize": False}),
    "the class's share": (CONVNEXT, "ConvNextImageProcessorPil", {"size": {"shortest_edge": 96}}),
    "the class's cut": (VIT, "CLIPImageProcessorPil", {"image_processor_type": "CLIPImageProcessor"}),
    "as it is": (VIT, "ViTImageProcessorPil", {"size": {"height": 48, "width": 64}, "do_resize": False}),
    "cut by its share": (
        CONVNEXT,
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": 96}, "crop_pct": 0.875},
    ),
}
IMAGE = (104, 80)


@pytest.fixture
def folder(tmp_path):
    def made(config, settings=None):
        (tmp_path / "config.json").write_text(json.dumps(config))
        if settings is not None:
            (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
        return tmp_path

    return made


@every_row("name", SETTINGS)
def test_images_have_the_size_that_the_processor_gives_them(name, folder):
    config, processor, settings = SETTINGS[name]
    stated = {key: value for key, value in settings.items() if key != "image_processor_type"}
    made = getattr(transformers, processor)(**stated)
    sides = made(np.zeros((*IMAGE, 3), dtype=np.uint8), return_tensors="np")["pixel_values"].shape[-2:]
    read = archcli.count_flops(folder(config, settings), image=IMAGE).totals
    given = archcli.count_flops(config, image=tuple(map(int, sides))).totals
    assert (sides == IMAGE) == (name == "as it is")
    assert read["matmul_flops"] == given["matmul_flops"]
    [medium], [other] = read["media"], given["media"]
    assert (medium["size"], medium["tokens"]) == ([*IMAGE], other["tokens"])
    assert archcli.count_flops(folder(config, settings)).totals["tokens"] == (
        read["tokens"] if name != "as it is" else archcli.count_flops(config).totals["tokens"]
    )


@pytest.mark.parametrize(
    ("settings", "note"),
    [
        (None, "no preprocessor_config.json says to which size images are resized"),
        ({"size": {"shortest_edge": 64}}, "preprocessor_config.json states no one size"),
    ],
)
def test_without_one_size_an_image_is_read_as_it_is_given(settings, note, folder):
    report = archcli.count_flops(str(folder(VIT, settings)), image="64x128")
    assert report.totals["tokens"] == 1 + 8 * 16
    assert any(text.startswith(note) for text in report.notes)


@pytest.mark.parametrize("size", [{"height": "a", "width": 3}, {"height": 0, "width": 8}, -4, 3])
def test_a_hostile_size_is_a_line_of_error(size, folder):
    with pytest.raises(ArchError) as refused:
        archcli.count_flops(folder(VIT, {"size": size}), image="64x64")
    assert len(refused.value.problems) == 1
