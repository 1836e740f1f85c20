"""Counts of whole multimodal models beside those of torch and fvcore: towers, projectors, language model."""

from dataclasses import replace

import pytest

import archcli
from archcli.errors import ArchError
from archcli.graph.count_tape import WholeTape
from archcli.measure.passes import count_pass
from archcli.modules.spec.request import Medium, Request
from archcli.wings.running.runtime.verify.verify import CountedPasses, verify
from asking import failures
from small_towers import RUN, running_model, small_model


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RUN)
def test_counts_of_the_whole_agree(name):
    model, image = running_model(name)
    report = archcli.verify(model, image=[image], seq_len=9, batch_size=2)
    assert report.totals["failed"] == 0
    (total,) = [row for row in report.rows if row["what"] == "total"]
    assert total["theirs"] == archcli.count_params(model).totals["params_with_towers"]
    flops = archcli.count_flops(model, image=[image], seq_len=9, batch_size=2, mask="dense").totals
    (forward,) = [r for r in report.rows if (r["witness"], r["what"]) == ("FlopCounterMode", "forward FLOPs")]
    assert forward["theirs"] >= flops["matmul_flops_with_towers"]


def passes_of(model, image, change):
    """The passes that are verified, with their rows changed."""
    request = model.placing(Request("forward", 1, 9, media=(image,)))
    decode = replace(request, phase="decode", media=(), in_prompt=False)
    asked = (request, replace(request, phase="train"), replace(request, phase="prefill"), decode)
    forward, train, *steps = (count_pass(model, one, WholeTape) for one in asked)
    passes = [replace(one, rows=tuple(change(row) for row in one.rows)) for one in (forward, train)]
    return CountedPasses(*passes, tuple(steps), 1, request.seq_len)


@pytest.mark.long
def test_a_wrong_count_of_a_tower_is_found_at_its_row():
    """Half the FLOPs of a matrix of the projector: each reference says so, and where."""
    model, image = running_model("llava")
    assert failures(verify(model, passes_of(model, image, lambda row: row))) == []
    path = "vision_tower.projector.1.linear"

    def halved(row):
        parts = tuple(replace(part, flops=part.flops // 2, backward=()) for part in row.parts)
        return replace(row, parts=parts) if row.path == path else row

    found = failures(verify(model, passes_of(model, image, halved)))
    assert {where for _, _, where in found} >= {path}
    assert {reference for reference, _, _ in found} == {"FlopCounterMode", "torch's formulas", "fvcore ×2"}


def test_what_runs_and_is_not_read_has_no_backward():
    """LLaVA takes vectors before the last layer: its FLOPs in training are those of a forward alone."""
    model, image = running_model("llava")
    request = model.placing(Request("train", 1, 9, media=(image,)))
    last = [row for row in count_pass(model, request).rows if ".layers.2." in row.path]
    assert {row.times for row in last} == {1}
    assert any(part.flops for row in last for part in row.parts)
    assert not any(part.backward for row in last for part in row.parts)
    before = [row for row in count_pass(model, request).rows if ".tower.layers.0." in row.path]
    assert {row.times for row in before} == {2}
    assert any(part.backward for row in before for part in row.parts)


@pytest.mark.long
def test_without_an_image_every_tower_reads_one_of_its_usual_size():
    model, _ = running_model("llava")
    report = archcli.verify(model, seq_len=9)
    assert report.totals["failed"] == 0
    # 56 x 56 pixels are 16 patches
    assert archcli.count_flops(model, image="56x56", seq_len=9).totals["prompt_tokens"] == 9 + 16
    assert any(row["what"] == "elements after prefill" for row in report.rows)


@pytest.mark.long
def test_of_towers_that_are_not_run_the_language_model_is_verified_alone():
    model, image = small_model("llava")
    report = archcli.verify(model, seq_len=9)
    assert report.totals["failed"] == 0
    assert any(note.startswith("The language model alone is verified: token 32000") for note in report.notes)
    with pytest.raises(ArchError, match="no image or sound is read: token 32000"):
        archcli.verify(model, seq_len=9, image=[image])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"image": ["56x56", "56x56"]}, "one image or sound for each tower"),
        ({"image": "56x56", "memory": True}, "--memory is of text"),
        ({"image": [Medium("image", (56, 56))], "audio_frames": 9}, "reads text and image"),
    ],
)
def test_media_that_are_not_verified_are_refused(options, said):
    model, _ = running_model("llava")
    with pytest.raises(ArchError, match=said):
        archcli.verify(model, **options)
