"""The cache of a prompt with images: text and what the images become, and towers among the weights."""

import pytest

import archcli
from archcli.errors import ArchError
from small_towers import small_model

PER_TOKEN = 2 * 2 * 2 * 16
"""Elements of a token: 2 layers of keys and values of 2 heads of 16."""


def test_the_cache_has_the_tokens_of_text_and_images():
    """112 x 140 pixels are 4 x 5 merged patches of 28."""
    model, image = small_model("qwen2_vl")
    totals = archcli.count_kv_cache(model, 100, image=[image, "56x84"]).totals
    assert [(entry["size"], entry["tokens"]) for entry in totals["media"]] == [
        ([112, 140], 20),
        ([56, 84], 6),
    ]
    assert totals["prompt_tokens"] == 100 + 20 + 6
    assert totals["elements"] == 126 * PER_TOKEN
    assert totals["elements"] == archcli.count_kv_cache(model, 126).totals["elements"]


def test_without_a_context_the_text_has_2048_tokens_or_as_many_as_fit():
    model, image = small_model("qwen2_vl")
    assert archcli.count_kv_cache(model, image=[image]).totals["prompt_tokens"] == 2048 + 20
    short, _ = small_model("qwen2_vl", max_position_embeddings=64)
    report = archcli.count_kv_cache(short, image=[image])
    assert report.totals["prompt_tokens"] == 64 + 20
    assert report.inputs["context"] == 84
    assert any("64" in note for note in report.notes)


def test_text_alone_has_no_entry_of_media():
    model, _ = small_model("qwen2_vl")
    assert {"media", "prompt_tokens"}.isdisjoint(archcli.count_kv_cache(model, 100).totals)


@pytest.mark.long
def test_towers_are_among_the_weights_that_leave_room_for_a_cache():
    model, _ = small_model("qwen2_vl")
    fits = archcli.count_kv_cache(model, 100, memory="1GiB").totals["fits"]
    assert fits["weights_bytes"] == 2 * archcli.count_params(model).totals["params_with_towers"]


def test_a_text_model_reads_no_image():
    with pytest.raises(ArchError, match="gpt2 reads text alone"):
        archcli.count_kv_cache("gpt2", image="224x224")
