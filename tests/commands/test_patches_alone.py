"""Towers of few parts: Fuyu's, which is a matrix of patches without layers, and GIT's, before the text."""

import json

import pytest

import archcli

D, PATCH = 64, 30
FUYU = {
    "architectures": ["FuyuForCausalLM"],
    "model_type": "fuyu",
    "vocab_size": 100,
    "hidden_size": D,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 16384,
    "image_size": 300,
    "patch_size": PATCH,
    "num_channels": 3,
}
GIT = {
    "architectures": ["GitForCausalLM"],
    "model_type": "git",
    "vocab_size": 100,
    "hidden_size": D,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_image_with_embedding": 6,
    "vision_config": {
        "model_type": "git_vision_model",
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "image_size": 56,
        "patch_size": 14,
    },
}


@pytest.fixture
def folder(tmp_path):
    def made(config, processor=None):
        (tmp_path / "config.json").write_text(json.dumps(config))
        if processor is not None:
            (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
        return tmp_path

    return made


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "with a text_config"])
def test_each_patch_is_a_token_and_so_is_the_end_of_each_row(folder, nested):
    own = ("architectures", "model_type", "image_size", "patch_size", "num_channels")
    text = {key: value for key, value in FUYU.items() if key not in own}
    config = {**{key: FUYU[key] for key in own}, "text_config": text} if nested else FUYU
    read = folder(config)
    numbers = 3 * PATCH**2
    assert archcli.count_params(read).totals["by_part"]["vision_tower"] == (numbers + 1) * D
    [large, small] = archcli.count_flops(read, image=[(1080, 1920), (31, 60)]).totals["media"]
    assert (large["tokens"], large["matmul_flops"]) == (36 * 64 + 36, 2 * 36 * 64 * numbers * D)
    assert (small["tokens"], small["matmul_flops"]) == (2 * 2 + 2, 2 * 2 * 2 * numbers * D)


def test_a_larger_image_shrinks_to_the_size_of_the_processor(folder):
    read = folder(FUYU, {"size": {"height": 540, "width": 960}, "patch_size": {"height": 30, "width": 30}})
    [medium] = archcli.count_flops(read, image="1080x1080").totals["media"]
    assert medium["tokens"] == 18 * 18 + 18


REFUSED = {
    "another patch": ({"patch_size": {"height": 15, "width": 15}}, "patch_size is not that of the processor"),
    "no resizing": ({"do_resize": False}, "its processor does not resize images"),
    "no sides": ({"size": {"height": "tall"}}, "its processor states a size of no whole patches"),
    "part of a patch": ({"size": {"height": 40, "width": 60}}, "a size of no whole patches"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_becomes_of_an_image_is_not_guessed(cli, folder, name):
    processor, reason = REFUSED[name]
    read = folder(FUYU, processor)
    done = cli("flops", read, "--image", "240x240")
    assert (done.code, reason in done.err) == (2, True)


@pytest.mark.sample(3, whole=True)
@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("survey",),
        ("show",),
        ("explain", "--part", "vision_tower"),
        ("memory", "--phase", "train", "--image", "60x60"),
        ("draw",),
        ("kvcache", "--image", "60x60"),
    ],
    ids=lambda command: command[0],
)
def test_commands_take_a_tower_without_layers(cli, folder, command):
    done = cli(command[0], folder(FUYU), *command[1:])
    # check has findings on a model as small as this
    assert (done.code, done.err) == (1 if command[0] == "check" else 0, "")


@pytest.mark.torch
def test_an_encoder_without_layers_is_its_front_end(tmp_path):
    file = tmp_path / "patches.yaml"
    file.write_text(
        f"kind: media_encoder\nd_model: {D}\nnorm: rmsnorm\nfinal_norm: false\ngroups: []\n"
        "front_end: {kind: patches, image_size: [60, 60], patch_size: [30, 30], class_token: false, "
        "position: none}\n"
    )
    assert archcli.count_params(file).totals["params"] == (3 * PATCH**2 + 1) * D
    assert archcli.count_flops(file).totals["matmul_flops"] == 2 * 4 * 3 * PATCH**2 * D
    assert archcli.build(file).front_end.patches.weight.shape == (D, 3, PATCH, PATCH)


def test_the_class_token_and_the_patches_of_git_stand_before_the_text(folder):
    read = folder(GIT)
    parts = archcli.count_params(read).totals["by_part"]
    patches, tokens, width, inner = 3 * 14**2 * 32, 4 * 4 + 1, 32, 48
    layer = 4 * (width + 1) * width + 2 * width * inner + inner + width + 2 * 2 * width
    assert parts["vision_tower"] == patches + width + tokens * width + 3 * layer + 2 * 2 * width + 6 * width
    assert parts["projector"] == (width + 1) * D + 2 * D
    totals = archcli.count_flops(read, seq_len=5, image="56x56").totals
    [medium] = totals["media"]
    assert (medium["tokens"], totals["prompt_tokens"]) == (tokens, tokens + 5)
    assert medium["by_part"]["projector"] == 2 * tokens * width * D
    matrices = 3 * 2 * tokens * (4 * width**2 + 2 * width * inner)
    assert medium["by_part"]["vision_tower"] == 2 * 16 * patches + matrices + 3 * 4 * tokens**2 * width
