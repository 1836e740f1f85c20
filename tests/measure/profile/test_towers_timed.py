"""A tower of a multimodal model is profiled as the encoder that it is."""

import pytest

import archcli
from archcli.errors import ArchError
from small_towers import small_model


@pytest.mark.parametrize("name", ["llava", "llava_next"])
def test_a_profile_has_the_flops_of_the_tower(name):
    model, image = small_model(name)
    size = "x".join(map(str, image.size))
    (entry,) = archcli.count_flops(model, image=size).totals["media"]
    timed = archcli.profile(model, part="vision_tower", image=size, pairs=1, no_ceilings=True)
    assert timed.totals["matmul_flops"] == entry["by_part"]["vision_tower"]
    assert {row["path"] for row in timed.rows} >= {"front_end.patches", "layers.*.attention.q_proj"}
    assert timed.model["name"].endswith(": vision_tower")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"image": "56x56"}, "the language model is profiled alone"),
        ({"part": "audio_tower"}, "has no audio_tower"),
        ({"part": "vision_tower", "image": ["56x56", "56x56"]}, "over one image or sound"),
    ],
)
def test_what_is_no_tower_over_one_image_is_refused(options, said):
    model, _ = small_model("llava")
    with pytest.raises(ArchError, match=said):
        archcli.profile(model, **options)
