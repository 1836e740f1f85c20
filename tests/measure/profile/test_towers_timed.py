"""Multimodal models are profiled as a whole, or one tower with its projector."""

import json

import pytest

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.render.data import document
from archcli.wings.serving.recorded.schema import first_violation
from oracle.regenerate_small_towers import FIGURES
from parity.whole import WHOLES
from small_towers import RUN, running_model, small_model

pytestmark = pytest.mark.torch
SMALL = json.loads(FIGURES.read_text())
FEW = {"pairs": 1, "no_ceilings": True}


def size_of(image):
    return "x".join(map(str, image.size))


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RUN)
def test_a_profile_of_the_whole_has_the_flops_of_towers_projector_and_language_model(name):
    model, image = running_model(name)
    size = {"image": size_of(image), "seq_len": 9, "batch_size": 2}
    counted = archcli.count_flops(model, **size).totals
    timed = archcli.profile(model, **size, **FEW)
    totals = timed.totals
    assert totals["matmul_flops"] == counted["matmul_flops_with_towers"]
    (entry,) = counted["media"]
    parts = {part: figures["matmul_flops"] for part, figures in totals["by_part"].items()}
    assert parts.pop("placing", 0) == 0
    assert parts == {**entry["by_part"], "language_model": counted["matmul_flops"]}
    assert totals["operations_differing"] == []
    assert totals["media"] == [{"kind": "image", "size": [*image.size], "tokens": entry["tokens"]}]
    assert timed.inputs["seq_len"] == counted["prompt_tokens"]


@pytest.mark.long
def test_parts_share_all_that_operations_cost_and_take():
    model, image = running_model("qwen3_vl")
    timed = archcli.profile(model, image=size_of(image), seq_len=9, phase="train", **FEW)
    totals, parts = timed.totals, timed.totals["by_part"]
    assert list(parts) == ["vision_tower", "projector", "placing", "language_model"]
    for key in ("flops", "bytes", "executed_flops"):
        assert sum(part[key] for part in parts.values()) == sum(row[key] for row in timed.rows)
    operations = sum(row["seconds"] for row in timed.rows)
    assert sum(part["seconds"] for part in parts.values()) == pytest.approx(operations)
    # 120 vectors of 64 numbers, four times: read and written with the ids of 129 tokens, and back
    assert parts["placing"]["bytes"] > 4 * 4 * 120 * 64 * 2
    assert parts["placing"]["seconds"] > 0
    paths = {row["path"] for row in timed.rows}
    assert paths >= {
        "vision_tower.tower.layers.*.attention.q_proj",
        "vision_tower.tap1.2.linear",
        "vision_tower_places",
        "deepstack.0",
        "layers.*.attention.q_proj",
        "lm_head",
    }
    assert totals["matmul_flops"] == sum(part["matmul_flops"] for part in parts.values())


@pytest.mark.long
def test_two_images_are_two_runs_of_the_tower():
    model, image = running_model("gemma3")
    one, two = (
        archcli.profile(model, image=[size_of(image)] * n, seq_len=9, **FEW).totals["by_part"] for n in (1, 2)
    )
    for part in ("vision_tower", "projector"):
        assert two[part]["flops"] == 2 * one[part]["flops"]


@pytest.mark.long
@pytest.mark.parametrize(("name", "kind"), [("qwen2-audio", "audio_tower"), ("internvl", "vision_tower")])
def test_sounds_and_videos_are_media_too(name, kind):
    if name == "internvl":
        (model, _), medium = running_model(name), {"video": "3x56x56"}
    else:
        model, medium = given(WHOLES[name].saved).model, {"audio_frames": 24}
    size = {**medium, "seq_len": 9, "batch_size": 2, "phase": "train"}
    counted = archcli.count_flops(model, **size).totals
    totals = archcli.profile(model, **size, **FEW).totals
    assert totals["matmul_flops"] == counted["matmul_flops_with_towers"]
    assert [*totals["by_part"]] == [kind, "projector", "placing", "language_model"]
    assert totals["operations_differing"] == []


def test_a_video_is_not_run_where_positions_go_by_rows_and_columns():
    model, _ = running_model("qwen2_vl")
    assert archcli.count_flops(model, video="4x112x112").totals["matmul_flops_with_towers"] > 0
    with pytest.raises(ArchError, match="a video is counted and not run"):
        archcli.profile(model, video="4x112x112")


@pytest.mark.long
def test_prompts_with_little_text_have_places_for_all_vectors():
    model, image = running_model("llava")
    timed = archcli.profile(model, image=[size_of(image)] * 2, seq_len=1, **FEW)
    assert timed.inputs["seq_len"] == 1 + 2 * 16


@pytest.mark.long
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_towers_run_in_the_prompt_and_not_in_decoding(phase):
    model, image = running_model("qwen2_vl")
    size = {"image": size_of(image), "seq_len": 9, "phase": phase}
    counted = archcli.count_flops(model, **size).totals
    totals = archcli.profile(model, **size, **FEW).totals
    assert totals["matmul_flops"] == counted["matmul_flops_with_towers"]
    assert ("by_part" in totals) == (phase == "prefill")


@pytest.mark.long
def test_without_media_the_language_model_is_profiled_alone():
    model, _ = running_model("llava")
    totals = archcli.profile(model, seq_len=9, **FEW).totals
    assert totals["matmul_flops"] == archcli.count_flops(model, seq_len=9).totals["matmul_flops"]
    assert not {"by_part", "media"} & totals.keys()


@pytest.mark.long
def test_the_document_fits_its_schema_and_has_a_table_of_parts():
    model, image = running_model("llava")
    report = archcli.profile(model, image=size_of(image), seq_len=9, **FEW)
    assert first_violation(json.loads(json.dumps(document(report)))) is None
    (table,) = [table for table in report.tables if table.title == "By part"]
    assert [record["part"] for record in table.records] == [*report.totals["by_part"]]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "phase"), [("llava", "train"), ("llava_next", "forward"), ("qwen3_vl", "train")]
)
def test_a_profile_of_a_tower_has_its_flops_and_those_of_its_projector(name, phase):
    model, image = small_model(name)
    (entry,) = archcli.count_flops(model, image=size_of(image), phase=phase).totals["media"]
    timed = archcli.profile(model, part="vision_tower", image=size_of(image), phase=phase, **FEW)
    parts = {part: figures["matmul_flops"] for part, figures in timed.totals["by_part"].items()}
    assert parts == entry["by_part"]
    assert timed.totals["operations_differing"] == []
    assert {row["path"] for row in timed.rows} >= {
        "tower.front_end.patches",
        "tower.layers.*.attention.q_proj",
    }
    assert timed.model["name"].endswith(": vision_tower")


def saved(entry, folder):
    (folder / "config.json").write_text(json.dumps(entry["config"]))
    if entry["processor"]:
        (folder / "preprocessor_config.json").write_text(json.dumps(entry["processor"]))
    return folder


def test_pieces_of_several_sizes_are_counted_and_not_run(tmp_path):
    model = saved(SMALL["step3p7"], tmp_path)
    assert archcli.count_flops(model, image="300x300").totals["media"]
    with pytest.raises(ArchError, match="pieces of several sizes, which are counted and not run"):
        archcli.profile(model, part="vision_tower", image="300x300")


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SMALL)
def test_towers_of_other_families_run_with_their_projector_over_all_pieces(name, tmp_path):
    entry, model = SMALL[name], saved(SMALL[name], tmp_path)
    options = {"part": "vision_tower", "image": [tuple(entry["image"])], **FEW}
    (counted,) = archcli.count_flops(model, image=options["image"]).totals["media"]
    totals = archcli.profile(model, **options).totals
    assert totals["matmul_flops"] == counted["matmul_flops"] == entry["flops"]
    assert totals["operations_differing"] == []


def test_a_tower_cut_to_some_layers_is_its_encoder():
    model, image = small_model("llava")
    timed = archcli.profile(model, part="vision_tower", image=size_of(image), layers=1, **FEW)
    assert "by_part" not in timed.totals
    assert {row["path"] for row in timed.rows} >= {"front_end.patches", "layers.*.attention.q_proj"}


@pytest.mark.sample(7, whole=True)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"part": "audio_tower"}, "has no audio_tower"),
        ({"part": "vision_tower", "image": ["56x56", "56x56"]}, "over one image or sound"),
        ({"part": "vision_tower", "vs": ["attention=eager"]}, "--part is of a tower"),
        ({"image": "56x56", "vs": ["attention=eager"]}, "--vs is of the language model"),
        ({"image": "56x56", "compiled": True}, "--compile is of the language model"),
        ({"image": "56x56", "per_kind": True}, "--per-kind is of the language model"),
        ({"image": "56x56", "phase": "prefill", "past": 3}, "--past is of the language model"),
        ({"audio_frames": 9}, "no part for images or sounds|reads text and image"),
    ],
)
def test_what_cannot_be_profiled_is_refused(options, said):
    model, _ = running_model("llava")
    with pytest.raises(ArchError, match=said):
        archcli.profile(model, **options)


def test_towers_that_are_counted_and_not_run_are_refused_with_what_to_do():
    model, image = small_model("paligemma")
    with pytest.raises(ArchError, match=r"counted and not run: .*--part vision_tower profiles"):
        archcli.profile(model, image=size_of(image))
