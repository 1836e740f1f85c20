"""What commands other than params and flops say of a model with towers."""

import json
import re
import shlex

import pytest
import yaml

import archcli
from archcli.errors import ArchError
from archcli.load.presets import presets_index
from archcli.load.spec.written import to_mapping
from archcli.wings.doors.line.ask import ask
from archcli.wings.serving.api.fit import FitOptions, _entries
from assistant import answer
from table import sampled_rows

TOWERS = [record["name"] for record in presets_index() if record["media"]]
LEFT_OUT = "the language model alone is varied; its vision tower and projector are left out"


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        ["scale", "qwen3-vl-8b", "--params", "4B"],
        ["sweep", "qwen3-vl-8b", "--vary", "d_model=2048,4096"],
    ],
    ids=lambda command: command[0],
)
def test_a_search_says_that_it_varies_the_language_model_alone(cli, command):
    done = cli(*command, "--json")
    assert (done.code, done.err) == (0, "")
    assert LEFT_OUT in json.loads(done.out)["notes"]
    text_alone = [argument.replace("qwen3-vl-8b", "qwen3-8b") for argument in command]
    assert LEFT_OUT not in json.loads(cli(*text_alone, "--json").out)["notes"]


@pytest.mark.long
def test_a_scaled_yaml_has_no_tower_of_the_old_width(cli, tmp_path):
    file = tmp_path / "scaled.yaml"
    assert cli("scale", "qwen3-vl-8b", "--params", "4B", "--write-yaml", file).code == 0
    assert "towers" not in yaml.safe_load(file.read_text())
    assert archcli.load(file).d_model != archcli.load("qwen3-vl-8b").d_model


def test_a_projector_of_another_width_than_the_language_model_is_noted(cli):
    """The class builds it all the same, so it is counted."""
    note = "the projector of its vision tower gives vectors of 4,096, and d_model is 2,048"
    for command in ("params", "flops"):
        done = cli(command, "qwen3-vl-8b", "--set", "d_model=2048")
        assert (done.code, done.err) == (0, "")
        assert f"note: {note}: the language model cannot read them." in done.out
        assert "gives vectors" not in cli(command, "qwen3-vl-8b").out
    assert archcli.load("qwen3-vl-8b").towers[0].width == archcli.load("qwen3-vl-8b").d_model == 4096


PASSES = {"vision_tower": {"image": "448x448"}, "audio_tower": {"audio_frames": 3000}}
OWN_SIZE = {"llama-4-scout-vision": "336x336"}


@sampled_rows("name", TOWERS, 4)
def test_the_closed_form_of_a_tower_is_what_is_counted(name):
    part = archcli.load(name).towers[0].part
    medium = {"image": OWN_SIZE[name]} if name in OWN_SIZE else PASSES[part]
    parts = archcli.count_params(name).totals["by_part"]
    assert archcli.explain(name, part=part).totals["value"] == parts[part] + parts["projector"]
    (counted,) = archcli.count_flops(name, **medium).totals["media"]
    assert archcli.explain(name, "flops", part=part, **medium).totals["value"] == counted["matmul_flops"]


def test_a_closed_form_holds_at_other_sizes():
    """4 (D + 1) D parameters of attention in each of L layers, whatever D and L."""
    report = archcli.explain("qwen3-vl-8b", part="vision_tower")
    formulas = {row["component"]: row["formula"] for row in report.rows}
    assert formulas["attention"] == "4*d_model*n_layers*(d_model + 1)"
    assert formulas["patch_embedding"] == "d_model*(256*in_channels + 1)"
    assert report.totals["symbols"]["d_model"] == 1152
    # a LayerNorm behind each tap and before the last merger, 4 linear pairs, 2 frames of 3 channels
    assert report.totals["symbols"]["in_channels"] == 6


def test_the_language_model_s_formula_counts_the_tokens_of_an_image():
    """448 / 32 = 14, so 196 tokens beside those of the text."""
    totals = archcli.explain("qwen3-vl-8b", "flops", image="448x448").totals
    assert "seq_len + 196" in totals["formula"]
    assert totals["value"] == archcli.count_flops("qwen3-vl-8b", image="448x448").totals["matmul_flops"]


@pytest.mark.parametrize(
    ("model", "options", "what"),
    [
        ("gpt2", {"part": "vision_tower"}, "gpt2 has no vision_tower"),
        ("qwen3-vl-8b", {"part": "audio_tower"}, "qwen3-vl-8b has no audio_tower"),
        ("qwen3-vl-8b", {"part": "vision_tower", "quantity": "kvcache"}, "a tower caches nothing"),
        ("qwen3-vl-8b", {"part": "vision_tower", "approx": True}, "textbooks approximate language models"),
        ("qwen3-vl-8b", {"image": "448x448"}, "image or sound changes nothing of params"),
        (
            "qwen3-vl-8b",
            {"quantity": "flops", "part": "vision_tower", "seq_len": 4},
            "seq_len changes nothing of flops of vision_tower",
        ),
        (
            "qwen3-vl-8b",
            {"quantity": "flops", "part": "vision_tower", "phase": "decode"},
            "a tower runs before the first token alone",
        ),
        (
            "qwen3-vl-8b",
            {"quantity": "flops", "part": "vision_tower", "image": ["448x448", "64x64"]},
            "a tower is explained over one image or sound",
        ),
    ],
)
def test_what_has_no_formula_is_refused_in_a_line(model, options, what):
    with pytest.raises(ArchError) as refused:
        archcli.explain(model, **options)
    assert refused.value.problems[0].what.startswith(what)


def checked(model, **options):
    return archcli.check(model, **options).rows


def test_a_tower_is_judged_under_the_name_of_its_part():
    """4,304 = 67.25 x 64, and 1,152 / 16 = 72."""
    rows = checked("qwen3-vl-8b", select=["HWD001", "HWD003"])
    by_code = {row["code"]: row for row in rows}
    assert by_code["HWD001"]["message"].startswith("vision_tower: d_ff 4,304 is no multiple of 64")
    assert by_code["HWD003"]["message"].startswith("vision_tower: head_dim 72")
    assert [row for row in checked("qwen3-8b") if row["message"].startswith("vision_tower")] == []
    # the presets that a figure is compared with are language models
    (width,) = checked("qwen3-vl-8b", select=["FFN001"])
    assert (width["message"][:12], width["evidence"]) == ("vision_tower", None)


def test_the_fix_of_a_tower_is_a_setting_of_the_whole_model():
    (finding,) = checked("qwen3-vl-8b", select=["HWD001"])
    (fix,) = finding["fixes"]
    assert fix == {"path": "towers.0.model.groups.0.layer.ffn.d_ff", "value": 67 * 64}
    assert checked(archcli.load("qwen3-vl-8b", [f"{fix['path']}={fix['value']}"]), select=["HWD001"]) == []


ENCODERS = {
    "whisper": {"model_type": "whisper", "architectures": ["WhisperForAudioClassification"]},
    "beit": {"model_type": "beit", "architectures": ["BeitModel"]},
}


@pytest.mark.parametrize("name", ENCODERS)
def test_rules_of_language_models_do_not_judge_encoders_of_images_and_sounds(name):
    assert {row["code"] for row in checked(ENCODERS[name])} <= {"HWD003"}


def test_an_encoder_of_images_is_judged_by_what_it_is():
    vit = {"model_type": "vit", "architectures": ["ViTModel"], "hidden_size": 768, "intermediate_size": 8192}
    assert [row["code"] for row in checked(vit) if row["severity"] == "warning"] == ["FFN002"]


def columns(svg):
    """The models whose columns an SVG has, in order."""
    return list(dict.fromkeys(re.findall(r'data-model="([^"]*)"', svg)))


def test_a_tower_is_drawn_in_a_column_of_its_own_with_an_arrow_to_the_embedding():
    svg = archcli.draw("qwen3-vl-8b").svg()
    assert columns(svg) == ["qwen3-vl-8b", "qwen3-vl-8b: vision_tower"]
    assert ">projector<" in svg
    assert "What they state differently" not in svg
    assert columns(archcli.draw("qwen3-8b").svg()) == []


def two_towers():
    """Qwen3-VL-8B with the ears of Voxtral, whose last step is as wide as the language model."""
    audio = to_mapping(archcli.load("voxtral-mini-3b"))["towers"][0]
    audio["projector"] = [{"kind": "merge", "block": [4, 1]}, {"width": 4096}]
    whole = to_mapping(archcli.load("qwen3-vl-8b"))
    return archcli.load({**whole, "towers": [*whole["towers"], audio]})


def test_two_towers_are_two_columns_and_three_lines():
    """Each line has five corners, from a projector or from what is tapped, each in a lane of its own."""
    svg = archcli.draw(two_towers()).svg()
    assert columns(svg) == [f"qwen3-vl-8b{part}" for part in ("", ": vision_tower", ": audio_tower")]
    routes = re.findall(r'd="M (\S+) \S+ V (\S+) H (\S+) V (\S+) H \S+"', svg)
    # of the vision tower one from its projector and one from its taps, of the audio tower one
    assert len(routes) == 3
    assert all(len(set(axis)) == 3 for axis in zip(*routes, strict=True))
    parts = archcli.count_params(two_towers()).totals["by_part"]
    assert parts["audio_tower"] == 636_968_960
    assert parts["vision_tower"] == 415_891_440


def test_the_text_of_a_drawing_has_the_towers_below_the_language_model(cli):
    lines = cli("draw", "voxtral-mini-3b").out.splitlines()
    assert "voxtral-mini-3b: audio_tower" in lines
    assert any("with towers" in line for line in lines)
    assert any("per sound" in line for line in lines)


def test_an_encoder_is_headed_by_what_an_image_costs():
    """303 GFLOP of 518 x 518 pixels, and not a token of a text."""
    config = {"model_type": "dinov2", "architectures": ["Dinov2Model"], "image_size": 518}
    headline = archcli.draw(config).anatomies[0].headline
    figure, caption, _ = headline[-1]
    assert (figure.value, caption) == (
        archcli.count_flops(config).totals["matmul_flops"],
        "FLOP per image of 518 × 518",
    )


def data_of(report):
    return json.loads(re.search(r'id="data">(.*?)</script>', report.html, re.DOTALL)[1])


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TOWERS)
def test_a_report_has_the_parts_of_the_whole_model(name):
    data = data_of(archcli.report(name, device=("h100-sxm",)))
    params = {row["part"].replace(" ", "_"): int(row["params"]) for row in data["parts"]}
    assert params == archcli.count_params(name).totals["by_part"]
    assert {row["part"] for row in data["parts"] if row["flops"] is None} == {"language model"}
    assert not data["redraws"]


@pytest.mark.long
def test_a_report_says_what_an_image_becomes():
    """768 / 32 = 24, so 576 tokens."""
    data = data_of(archcli.report("qwen3-vl-8b", device=("h100-sxm",)))
    assert {row["media"] for row in data["parts"]} == {"an image of 768 x 768 pixels is 576 tokens"}
    (read,) = archcli.count_flops("qwen3-vl-8b", image="768x768").totals["media"]
    assert {row["part"].replace(" ", "_"): int(row["flops"]) for row in data["parts"][1:]} == read["by_part"]
    assert data_of(archcli.report("gpt2", device=("h100-sxm",)))["parts"] == []


def test_the_cache_of_an_encoder_is_that_of_what_it_reads(cli):
    """518 / 14 = 37, so 37 x 37 patches and a class token; none of them is cached."""
    config = {"model_type": "dinov2", "architectures": ["Dinov2Model"], "image_size": 518}
    report = archcli.count_kv_cache(config)
    assert (report.inputs["context"], report.totals["elements"]) == (37 * 37 + 1, 0)
    assert archcli.count_kv_cache("qwen3-vl-8b").inputs["context"] == 262_144


IMAGE = "1080x1920"
ASKED = {
    "flops": {"image": [IMAGE]},
    "memory": {"phase": "serve", "device": "h100-sxm", "image": [IMAGE]},
    "predict": {"phase": "prefill", "device": "h100-sxm", "image": [IMAGE]},
}


@pytest.mark.sample(2, whole=True)
@pytest.mark.parametrize("tool", ASKED)
def test_an_assistant_and_the_page_ask_about_images(tool):
    """1,920 x 1,080 becomes 34 x 60 merged patches, 2,040 tokens beside the 2,048 of the text."""
    told = answer(tool, model="qwen3-vl-8b", **ASKED[tool])
    assert f"--image {IMAGE}" in told["command"]
    assert "4,088" in told["headline"]
    of_page = json.loads(ask(shlex.split(told["command"])[1:]))
    assert of_page["inputs"]["seq_len"] == 2048 + 34 * 60


def test_the_page_shows_the_parts_of_the_whole_model():
    text = ask(["params", "qwen3-vl-8b", "--format", "md"])
    assert "With towers" in text
    assert r"| vision\_tower | 415,891,440 | 416M |" in text


@pytest.mark.long
def test_what_fits_a_device_is_told_of_towers_where_they_are_asked_for():
    names = {entry.name for entry in _entries(FitOptions(device="rtx-3090"))}
    assert {"qwen3-8b", "gemma-3-4b"} <= names
    assert names.isdisjoint(TOWERS)
    asked = {entry.name for entry in _entries(FitOptions(device="rtx-3090", where=["media=image"]))}
    assert asked == {name for name in TOWERS if archcli.load(name).towers[0].part == "vision_tower"}
