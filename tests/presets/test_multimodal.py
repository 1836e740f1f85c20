"""Presets with towers: each is what its config.json imports as, and its figures are those of the classes.

`tests/oracle/multimodal.json` holds a config for each, its processor's settings, and, where the class of
transformers was asked, parameters by part and for some images and sounds tokens and FLOPs by part.
"""

import json
from functools import cache
from pathlib import Path

import pytest

import archcli
from archcli.load.presets import presets
from archcli.load.source import load
from archcli.load.spec.written import to_yaml
from archcli.modules import settings
from archcli.modules.spec.request import Medium, Request
from table import sampled_rows

RECORDS = json.loads((Path(__file__).parents[1] / "oracle" / "multimodal.json").read_text())
ABOUT = {"name", "source", "released", "series", "sibling_of", "published"}
MEDIA = {
    "vision_tower": [Medium("image", (448, 448)), Medium("image", (1080, 1920))],
    "audio_tower": [Medium("frames", (3000,))],
}
ONE_SIZE = {"kimi-k2.5": (896, 896), "llama-3.2-11b-vision": (560, 560), "llama-4-scout-vision": (336, 336)}
"""Presets that read no image of any size: a size that each reads."""


def media_of(name):
    part = archcli.load(name).towers[0].part
    return [Medium("image", ONE_SIZE[name])] if name in ONE_SIZE else MEDIA[part]


@cache
def imported(name, folder):
    """What the config.json and the processor's file beside it import as."""
    record = RECORDS[name]
    (folder / "config.json").write_text(json.dumps(record["config"]))
    settings = folder / "preprocessor_config.json"
    settings.unlink(missing_ok=True)
    if record.get("processor") is not None:
        settings.write_text(json.dumps(record["processor"]))
    return archcli.load(folder)


def figures(model, medium):
    """Parameters, and what an image or a sound costs."""
    totals = archcli.count_flops(model, Request(media=(medium,))).totals
    counted = archcli.count_params(model).totals
    of_pass = ("media", "prompt_tokens", "matmul_flops", "matmul_flops_with_towers", "other_flops")
    of_params = ("params", "params_with_towers", "by_part", "active_params", "by_group")
    return {**{key: totals[key] for key in of_pass}, **{key: counted[key] for key in of_params}}


@pytest.mark.long
def test_the_presets_with_towers_are_those():
    assert sorted(RECORDS) == [name for name in presets() if load(name).model.towers]
    assert len(RECORDS) == 25


@sampled_rows("name", RECORDS, 4)
def test_is_what_its_config_imports_as(name, tmp_path):
    def stated(model):
        return {path: value for path, value in settings(model) if path.rpartition(".")[2] not in ABOUT}

    theirs = imported(name, tmp_path)
    assert theirs.quantization == theirs.published_in  # of Kimi K2.5 the published form, of others none
    assert stated(archcli.load(name)) == stated(theirs.replace(quantization=None))
    assert archcli.load(name).towers == theirs.towers


@sampled_rows("name", RECORDS, 4)
def test_written_as_yaml_it_has_the_figures_of_its_config(name, tmp_path):
    theirs = imported(name, tmp_path).replace(quantization=None)
    written = tmp_path / "written.yaml"
    written.write_text(to_yaml(theirs))
    for medium in media_of(name):
        expected = figures(theirs, medium)
        assert figures(archcli.load(name), medium) == expected
        assert figures(archcli.load(written), medium) == expected


@sampled_rows("name", [name for name, record in RECORDS.items() if "by_part" in record], 4)
def test_parts_and_media_are_the_class_s(name):
    record, model = RECORDS[name], archcli.load(name)
    totals = archcli.count_params(model).totals
    assert totals["by_part"] == record["by_part"]
    assert totals["params_with_towers"] == sum(record["by_part"].values())
    assert record["media"]
    for kind, size, tokens, by_part in record["media"]:
        (medium,) = archcli.count_flops(model, Request(media=(Medium(kind, tuple(size)),))).totals["media"]
        assert (medium["size"], medium["by_part"]) == (size, by_part)
        assert tokens is None or medium["tokens"] == tokens


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("gemma-3-12b-vision", {"d_model": 3840, "vision": "gemma-3-4b-vision"}),
        ("gemma-3-27b-vision", {"d_model": 5376, "vision": "gemma-3-4b-vision"}),
        ("internvl3-8b", {"d_model": 3584, "vision": "internvl3-2b"}),
    ],
)
def test_models_of_a_series_share_their_tower(name, sizes):
    ours, theirs = (archcli.load(other).towers[0] for other in (name, sizes["vision"]))
    assert ours.model == theirs.model
    assert archcli.load(name).d_model == sizes["d_model"]
