"""Layers of steps on a grid: parameters and FLOPs worked out, and refusals of what does not go with them."""

import pytest

import archcli
from archcli.errors import ArchError
from archcli.modules.spec.request import Medium, Request

CONV = {"kind": "conv", "out": 8, "kernel": 3, "norm": "batchnorm", "activation": "relu"}
STEM = {"kind": "convolved_image", "image_size": [9, 12], "steps": [{**CONV, "stride": 2}]}
LAYER = {
    "kind": "convolutions",
    "steps": [{**CONV, "out": 6, "groups": 2}, {"kind": "conv", "out": 8, "kernel": 1}],
}


def network(layer=LAYER, n_layers=1, stem=STEM, **more):
    return {
        "kind": "media_encoder",
        "d_model": 8,
        "norm": "batchnorm",
        "front_end": stem,
        "final_norm": False,
        "pooling": "mean",
        "groups": [{"n_layers": n_layers, "layer": layer}],
        **more,
    }


def params(**more):
    return archcli.count_params(network(**more)).totals["params"]


def flops(size, **more):
    request = Request(media=(Medium("image", size),))
    return archcli.count_flops(network(**more), request).totals["matmul_flops"]


OF_STEM = 3 * 9 * 8 + 2 * 8
OF_LAYER = 8 // 2 * 9 * 6 + 2 * 6 + 6 * 8


def test_parameters_are_those_of_kernels_and_of_batch_norms():
    assert params() == OF_STEM + OF_LAYER
    assert params(layer={**LAYER, "residual": True}, n_layers=3) == OF_STEM + 3 * OF_LAYER


def test_flops_are_those_of_the_places_that_are_left():
    # 9 x 12 pixels become 5 x 6 places: (9 + 2 - 3) // 2 + 1 and (12 + 2 - 3) // 2 + 1
    places = 5 * 6
    assert flops((9, 12)) == 2 * places * (3 * 9 * 8 + 8 // 2 * 9 * 6 + 6 * 8)


def test_an_odd_image_is_padded_by_tensorflows_rule_below_and_to_the_right():
    # 10 x 12 pixels in steps of 2 become 5 x 6 places, 9 as many: (9 + 1) // 2
    same = {**STEM, "steps": [{**CONV, "stride": 2, "same": True}]}
    assert flops((10, 12), stem=same) == flops((9, 12), stem=same) == flops((9, 12))


def test_squeeze_and_excitation_has_two_small_matrices_with_biases():
    squeeze = {"kind": "squeeze", "width": 2}
    extra = 8 * 2 + 2 + 2 * 8 + 8
    assert params(layer={**LAYER, "steps": [*LAYER["steps"], squeeze]}) == OF_STEM + OF_LAYER + extra


def test_a_branch_reads_what_the_steps_read():
    branch = {"kind": "conv", "out": 8, "kernel": 1, "bias": True}
    assert params(layer={**LAYER, "branches": [branch]}) == OF_STEM + OF_LAYER + 8 * 8 + 8


def test_keys_of_a_reduced_grid_are_those_of_whole_blocks():
    attention = {"kind": "reduced_grid", "n_heads": 2, "reduction": 2, "causal": False, "norm": "layernorm"}
    layer = {"kind": "pre_norm", "attention": attention}
    queries, keys = 5 * 6, 2 * 3
    reduced = 2 * keys * 4 * 8 * 8
    projected = 2 * 8 * 8 * (2 * queries + 2 * keys)
    scored = 2 * 2 * queries * keys * 8
    stem = 2 * queries * 3 * 9 * 8
    assert flops((9, 12), layer=layer) == stem + reduced + projected + scored


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layer": {**LAYER, "steps": [{**CONV, "stride": 2}]}, "n_layers": 2}, "repeats a layer that makes"),
        ({"layer": {**LAYER, "ffn": {"kind": "mlp", "d_ff": 8}}}, "in the place of a mixer and a network"),
        ({"stem": {**STEM, "image_size": [1, 1], "steps": [{"kind": "pool"}]}}, "leave no place"),
        ({"layer": {"kind": "pre_norm", "mixer": {"kind": "grid_pool", "side": 2}}}, "no middle"),
    ],
    ids=["repeats", "network", "small", "even"],
)
def test_what_does_not_go_with_them_is_refused(given, message):
    with pytest.raises(ArchError, match=message):
        params(**given)


def test_an_image_of_which_no_place_is_left_is_refused():
    with pytest.raises(ArchError, match="no place is left"):
        flops((1, 1), stem={**STEM, "steps": [{"kind": "pool"}, CONV]})


VIDEO = {"kind": "video_patches", "n_frames": 4, "image_size": [6, 8], "block": [2, 3, 4]}


def test_a_video_is_blocks_of_frames():
    encoder = network(
        stem=VIDEO,
        pooling="first",
        norm="layernorm",
        layer={"kind": "pre_norm", "ffn": {"kind": "mlp", "d_ff": 8}},
    )
    blocks = 2 * 2 * 2
    front = 3 * 2 * 3 * 4 * 8 + 8 + 8 + (1 + blocks) * 8
    assert archcli.count_params(encoder).totals["params"] == front + 2 * 8 * 8 + 2 * 8
    report = archcli.count_flops(encoder, Request(media=(Medium("video", (4, 6, 8)),)))
    assert report.totals["matmul_flops"] == 2 * blocks * 72 * 8 + 2 * (1 + blocks) * 2 * 8 * 8
    with pytest.raises(ArchError, match="positions are those of 4 x 6 x 8"):
        archcli.count_flops(encoder, Request(media=(Medium("video", (8, 6, 8)),)))


def test_a_file_of_two_encoders_that_names_no_class_is_refused():
    with pytest.raises(ArchError, match="names no class"):
        archcli.load({"model_type": "clip", "vision_config": {"hidden_size": 32}})
