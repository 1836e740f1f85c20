"""Kinds of encoders of images: what contradicts itself, or has no grid that fits, is refused in a line."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium, Request

FFN = {"kind": "mlp", "d_ff": 8}
PATCHES = {"image_size": [8, 8], "patch_size": [2, 2]}


def network(front=None, layer=None, **more):
    return {
        "kind": "media_encoder",
        "d_model": 8,
        "norm": "layernorm",
        "front_end": front or PLAIN,
        "pooling": "mean",
        "groups": [{"n_layers": 1, "layer": layer or {"kind": "pre_norm", "ffn": FFN}}],
        **more,
    }


MERGER = {"kind": "window_merger", "n_heads": 2, "d_ff": 12, "norm": "layernorm"}
STEPS = {"kind": "steps", "steps": [MERGER]}
PLAIN = {**PATCHES, "class_token": False}
REFUSED = {
    "steps": ({"layer": {**STEPS, "ffn": FFN}}, "in the place of a mixer"),
    "frozen": ({"front": {**PATCHES, "frozen": True}}, "frozen positions"),
    "kept": ({"front": {**PATCHES, "kept": 17}}, "at most 16"),
}
UNFIT = {
    "steps": (
        {"layer": {**STEPS, "steps": [{**MERGER, "block": [3, 3]}]}, "front": PLAIN},
        "windows of 3 x 3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_contradicts_itself_is_refused(case):
    given, message = REFUSED[case]
    with pytest.raises(ArchError, match=message):
        archcli.count_params(network(**given))


@pytest.mark.parametrize("case", UNFIT)
def test_a_grid_that_does_not_fit_is_refused(case):
    given, message = UNFIT[case]
    with pytest.raises(ArchError, match=message):
        archcli.count_flops(network(**given), Request(media=(Medium("image", (8, 8)),)))


def test_frozen_positions_are_parameters_that_are_not_trained():
    front = {**PATCHES, "frozen": True, "resize": None}
    totals = archcli.count_params(network(front)).totals
    assert totals["params"] - totals["trainable_params"] == (1 + 16) * 8


def test_of_the_patches_so_many_go_on():
    request = Request(media=(Medium("image", (8, 8)),))
    all_of_them, kept = (
        archcli.count_flops(network({**PATCHES, **more}), request).totals["matmul_flops"]
        for more in ({}, {"kept": 6})
    )
    assert all_of_them - kept == (16 - 6) * 2 * 2 * 8 * 8


def test_layers_behind_a_merger_see_a_quarter_of_the_patches():
    """16 patches of 12 numbers; windows of 4, 8 wide, 12 between the matrices; then 4 tokens in a network."""
    groups = [{"n_layers": 1, "layer": layer} for layer in (STEPS, {"kind": "pre_norm", "ffn": FFN})]
    report = archcli.count_flops(
        network(PLAIN, groups=groups), Request(media=(Medium("image", (8, 8)),))
    ).totals
    attention = 2 * 16 * 4 * 8 * 8 + 4 * 16 * 4 * 8
    merger = 2 * 4 * (32 * 12 + 12 * 8)
    assert report["media"][0]["tokens"] == 4
    assert report["matmul_flops"] == 2 * 16 * 12 * 8 + attention + merger + 2 * 4 * (8 * 8 + 8 * 8)


def test_a_merger_that_is_repeated_is_refused():
    groups = [{"n_layers": 2, "layer": STEPS}]
    with pytest.raises(ArchError, match="a group of its own"):
        archcli.count_params(network(PLAIN, groups=groups))


def test_a_file_of_two_encoders_that_names_no_class_is_refused():
    with pytest.raises(ArchError, match="names no class"):
        archcli.load({"model_type": "metaclip_2", "vision_config": {"hidden_size": 32}})
