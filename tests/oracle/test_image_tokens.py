"""Tokens of images by the processors of transformers, called whole; and how half a file of theirs is read."""

import contextlib
import json

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium
from archcli.wings.media.huggingface.processing import CLASSES
from oracle.regenerate_image_tokens import FIGURES, class_settings, sizes

FAMILIES = json.loads(FIGURES.read_text())
DRAWN = [(357, 1074), (683, 319), (88, 248), (25, 61), (749, 685), (89, 48), (72, 62)]
DRAWN += [(212, 246), (1765, 2400), (352, 1366), (61, 24), (338, 95), (28, 29), (180, 572)]
"""What `sizes` draws, which needs numpy."""


@pytest.fixture
def folder(tmp_path):
    def made(config, processor=None, options=None):
        (tmp_path / "config.json").write_text(json.dumps(config))
        if processor is not None:
            (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
        if options:
            (tmp_path / "processor_config.json").write_text(json.dumps(options))
        return str(tmp_path)

    return made


def tokens(folder, size):
    """The tokens of an image in the prompt; None where it is refused."""
    tower = next(tower for tower in archcli.load(folder).towers if "image" in tower.media)
    try:
        return tower.prompt_tokens(Medium("image", size))
    except ArchError:
        return None


def test_the_sizes_are_those_that_were_drawn():
    assert sizes() == DRAWN


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_of_14_sizes_are_those_of_the_processor(name, folder):
    entry = FAMILIES[name]
    read = folder(entry["config"], entry["processor"], entry["options"])
    assert [tokens(read, size) for size in DRAWN] == entry["tokens"]


def test_sides_of_mistral_3_go_up_to_a_whole_token(folder):
    """PixtralProcessor: a token is 2 x 2 patches of 14 pixels, and each row ends in one more.

    3000 x 4000 shrinks to 1155 x 1540, 42 x 55 tokens; 1080 x 1920 to 866 x 1540, 31 x 55.
    """
    entry = FAMILIES["mistral3"]
    read = folder(entry["config"], {**entry["processor"], "processor_class": "PixtralProcessor"})
    counts = {size: tokens(read, size) for size in ((3000, 4000), (33, 37), (1080, 1920))}
    assert counts == {(3000, 4000): 42 * (55 + 1), (33, 37): 2 * (2 + 1), (1080, 1920): 31 * (55 + 1)}


@pytest.mark.parametrize(
    ("name", "classes", "settings", "size", "alone", "whole"),
    [
        # PixtralImageProcessor(patch_size=14) makes 480 x 640 to 490 x 644: 35 x 46 patches, whose blocks of
        # 2 x 2 are 17 x 23; PixtralProcessor makes it to 504 x 644, 18 x 23. Each row ends in one more
        ("mistral3", "Pixtral", {"size": {"longest_edge": 1540}, "patch_size": 14}, (480, 640), 408, 432),
        # 490 pixels are 35 x 35 patches, of 128 queries; AriaProcessor sets 980, 70 x 70 patches, of 256
        ("aria", "Aria", {"max_image_size": 490}, (490, 490), 128, 256),
    ],
)
def test_an_image_processor_by_itself_is_overruled_by_none(
    name, classes, settings, size, alone, whole, folder
):
    """Its file names its class; that of a whole processor names both, or has a file of its own beside."""
    config, named = FAMILIES[name]["config"], {"image_processor_type": f"{classes}ImageProcessor", **settings}
    processor = {"processor_class": f"{classes}Processor"}
    assert tokens(folder(config, named), size) == alone
    assert tokens(folder(config, {**named, **processor}), size) == whole
    assert tokens(folder(config, settings), size) == whole
    assert tokens(folder(config, named, {**processor, **FAMILIES[name]["options"]}), size) == whole


MEGAPIXELS = (3000, 4000)


@pytest.mark.sample(4, whole=True)
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # at most 1,003,520 pixels, Qwen2VLImageProcessor's own: 864 x 1152 by 32, 27 x 36
        ({"min_pixels": 200704}, 27 * 36),
        ({"min_pixels": 200704, "size": None}, 27 * 36),
        # at most 2,007,040 pixels: 1216 x 1632
        ({"max_pixels": 2007040}, 38 * 51),
        ({"size": {"shortest_edge": 65536, "longest_edge": 2007040}}, 38 * 51),
        ({"size": {"min_pixels": 65536, "max_pixels": 2007040}}, None),
        ({"size": {"longest_edge": 2007040}}, None),
    ],
)
def test_what_half_a_file_leaves_out_is_the_class_s(settings, expected, folder):
    read = folder(FAMILIES["qwen3_5"]["config"], {"patch_size": 16, **settings})
    assert tokens(read, MEGAPIXELS) == expected
    notes = archcli.count_params(read).notes
    assert not any("preprocessor_config" in note for note in notes)


def test_what_the_class_refuses_is_said(folder):
    read = folder(
        FAMILIES["qwen3_5"]["config"], {"patch_size": 16, "size": {"min_pixels": 1, "max_pixels": 2}}
    )
    with pytest.raises(ArchError, match="must have shortest_edge and longest_edge, and no other keys"):
        archcli.count_flops(read, image=MEGAPIXELS)


def test_a_patch_that_is_not_the_tower_s_is_said(folder):
    """Qwen2VLImageProcessor's own is 14."""
    read = folder(FAMILIES["qwen3_5"]["config"], {"min_pixels": 200704})
    with pytest.raises(ArchError, match="patch_size is 14 in its processor, and 16 in its tower"):
        archcli.count_flops(read, image=MEGAPIXELS)


@pytest.mark.parametrize(
    ("name", "settings", "size", "expected"),
    [
        ("qwen3_5", {"patch_size": 16, "do_resize": False}, (96, 64), 3 * 2),
        ("qwen3_5", {"patch_size": 16, "do_resize": False}, (97, 64), None),
        ("kimi_k25", {"do_resize": False}, (280, 56), 10 * 2),
        ("gemma4", {"do_resize": False}, (96, 48), 2),
        (
            "llava",
            {"do_resize": False},
            (999, 336),
            None,
        ),  # cut to 224 x 224, which an encoder of 336 refuses
        ("phi4_multimodal", {"do_resize": False}, (25, 61), FAMILIES["phi4_multimodal"]["tokens"][3]),
    ],
)
def test_an_image_that_is_not_resized_stays_as_it_is(name, settings, size, expected, folder):
    assert tokens(folder(FAMILIES[name]["config"], settings), size) == expected


def test_a_file_of_the_whole_processor_holds_that_of_images(folder):
    """As transformers 5 writes it; it stands before a preprocessor_config.json."""
    config, settings = FAMILIES["qwen3_5"]["config"], {"patch_size": 16, "min_pixels": 200704}
    read = folder(config, {"patch_size": 14}, {"image_processor": settings})
    assert tokens(read, MEGAPIXELS) == 27 * 36


def test_notes_on_images_are_for_questions_about_images(folder):
    read = folder(FAMILIES["qwen3_5"]["config"])
    assert not any("preprocessor_config" in note for note in archcli.count_params(read).notes)
    about = [note for note in archcli.count_flops(read, image="64x64").notes if "preprocessor_config" in note]
    assert len(about) == 2


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # those of transformers are not ours to mend
def test_the_defaults_are_those_of_the_classes():
    """Of those with a form for Pillow; the others need torchvision."""
    with_pillow = {}
    for name in json.loads(CLASSES.read_text())["image_processors"]:
        with contextlib.suppress(AttributeError):
            with_pillow[name] = class_settings(f"{name}Pil")
    stored = json.loads(CLASSES.read_text())["image_processors"]
    assert len(with_pillow) > 30
    assert with_pillow == {name: stored[name] for name in with_pillow}
