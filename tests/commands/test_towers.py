"""What commands other than params and flops say of a model with towers."""

import json

import pytest
import yaml

import archcli
from archcli.errors import ArchError
from archcli.load.presets import presets_index

TOWERS = [record["name"] for record in presets_index() if record["media"]]
LEFT_OUT = "the language model alone is varied; its vision tower and projector are left out"


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


def test_a_scaled_yaml_has_no_tower_of_the_old_width(cli, tmp_path):
    file = tmp_path / "scaled.yaml"
    assert cli("scale", "qwen3-vl-8b", "--params", "4B", "--write-yaml", file).code == 0
    assert "towers" not in yaml.safe_load(file.read_text())
    assert archcli.load(file).d_model != archcli.load("qwen3-vl-8b").d_model


def test_a_projector_ends_as_wide_as_the_language_model(cli):
    done = cli("params", "qwen3-vl-8b", "--set", "d_model=2048")
    assert (done.code, done.out) == (2, "")
    assert "error: its vectors are 4096 wide, and those of the language model 2048" in done.err
    assert archcli.load("qwen3-vl-8b").towers[0].width == archcli.load("qwen3-vl-8b").d_model == 4096


PASSES = {"vision_tower": {"image": "448x448"}, "audio_tower": {"audio_frames": 3000}}
OWN_SIZE = {"llama-4-scout-vision": "336x336"}


@pytest.mark.parametrize("name", TOWERS)
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
