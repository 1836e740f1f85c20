"""Encoders of images by themselves: a processor's file says to which size images are resized."""

import json

import numpy as np
import pytest
import torch
import transformers

import archcli
from archcli.errors import ArchError
from archcli.load.huggingface.wrappers.table import WRAPPERS
from mappings.regenerate_whole import configs
from table import sampled_rows

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
SETTINGS = {
    "height and width": (VIT, "ViTImageProcessorPil", {"size": {"height": 48, "width": 64}}),
    "a square": (VIT, "ViTImageProcessorPil", {"size": 56}),
    "cut": (
        VIT,
        "CLIPImageProcessorPil",
        {"size": {"shortest_edge": 60}, "crop_size": {"height": 56, "width": 48}, "do_center_crop": True},
    ),
    "what is left out": (VIT, "ViTImageProcessorPil", {"do_normalize": False}),
    "the class's cut": (VIT, "CLIPImageProcessorPil", {"image_processor_type": "CLIPImageProcessor"}),
    "as it is": (VIT, "ViTImageProcessorPil", {"size": {"height": 48, "width": 64}, "do_resize": False}),
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


@sampled_rows("name", SETTINGS, 4)
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


ODD = {
    "less than a patch": {"size": {"height": 5, "width": 5}, "do_center_crop": False},
    "a cut less than a patch": {"crop_size": 3, "size": 3},
    "no pixels": {"size": {"height": 0, "width": 0}},
    "an edge of one pixel": {"size": {"shortest_edge": 1, "longest_edge": 1}},
    "a word": {"size": "x"},
    "tiles of one pixel": {"max_image_size": {"longest_edge": 3}, "tile_size": 1},
}
# the default of Qwen3-Omni has heads of 73, which no class rotates
TOWERS = [kind for kind in configs() if kind in WRAPPERS.keys() - {"qwen3_omni_moe_thinker"}]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", TOWERS)
def test_no_size_of_a_processor_takes_a_tower_away(kind, folder):
    """Weights do not depend on the images that a processor makes; one that is not read is refused alone."""
    config = configs()[kind]["config"]
    known = archcli.count_params(folder(config)).totals.get("by_part")
    for name, settings in ODD.items():
        assert archcli.count_params(folder(config, settings)).totals.get("by_part") == known, name


def test_an_image_of_a_size_that_no_encoder_reads_is_refused_alone(folder):
    config = configs()["llava"]["config"]
    read = folder(config, ODD["less than a patch"])
    assert "vision_tower" in archcli.count_params(read).totals["by_part"]
    what = r"not read: by preprocessor_config.json an image of 5 x 5 is smaller than a patch"
    with pytest.raises(ArchError, match=what):
        archcli.count_flops(read, image="336x336")


TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
OF_ONE_SIZE = {
    "llava": {
        "vision_config": {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14, **TINY},
        "vision_feature_layer": -1,
    },
    "paligemma": {
        "vision_config": {"model_type": "siglip_vision_model", "image_size": 56, "patch_size": 14, **TINY},
        "projection_dim": 32,
    },
}


OF_TEXT = {"llava": "llama", "paligemma": "gemma"}


@pytest.mark.long
@pytest.mark.parametrize("kind", OF_ONE_SIZE)
def test_an_encoder_of_one_size_refuses_what_its_class_refuses(kind, folder):
    """CLIP and SigLIP read another size with interpolate_pos_encoding alone, which no class passes."""
    text = {"model_type": OF_TEXT[kind], "vocab_size": 64, "num_key_value_heads": 4, "head_dim": 8, **TINY}
    config = {"model_type": kind, "text_config": text, "image_token_index": 9, **OF_ONE_SIZE[kind]}
    model = transformers.AutoModelForImageTextToText.from_config(transformers.AutoConfig.for_model(**config))
    model(input_ids=torch.full((1, 16), 9), pixel_values=torch.zeros(1, 3, 56, 56))
    with pytest.raises((ValueError, RuntimeError), match="match"):
        model(input_ids=torch.full((1, 4), 9), pixel_values=torch.zeros(1, 3, 28, 28))
    sides = {"do_center_crop": False, "image_processor_type": "CLIPImageProcessor"}
    read = folder(config, {"size": {"height": 56, "width": 56}, **sides})
    assert archcli.count_flops(read, image="40x40").totals["media"][0]["tokens"] == 4 * 4
    read = folder(config, {"size": {"height": 28, "width": 28}, **sides})
    assert "vision_tower" in archcli.count_params(read).totals["by_part"]
    with pytest.raises(ArchError, match="an image of 28 x 28 is not read: positions are those of 56 x 56"):
        archcli.count_flops(read, image="40x40")
