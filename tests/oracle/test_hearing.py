"""Multimodal models that hear: parameters by part, tokens and FLOPs of sounds are the class's."""

import json

import pytest

import archcli
from archcli.errors import ArchError
from archcli.load.huggingface.config import Config
from archcli.load.huggingface.config_json import ConfigValue
from archcli.load.source import load_text
from archcli.modules.spec.request import Medium, Request
from archcli.wings.media.huggingface.processing import image_settings
from archcli.wings.media.huggingface.towers.heard import phi4
from archcli.wings.media.huggingface.towers.source import TowerSource
from oracle.regenerate_hearing import FIGURES, figures
from table import every_row, sampled_rows

HEARING = json.loads(FIGURES.read_text())


def config(name, **more):
    return {**HEARING[name]["config"], "architectures": [HEARING[name]["class"]], **more}


@sampled_rows("name", HEARING, 4)
def test_parameters_by_part_are_the_class_s(name):
    totals = archcli.count_params(config(name)).totals
    assert totals["by_part"] == HEARING[name]["params"]
    assert totals["params"] == HEARING[name]["params"]["language_model"]


@sampled_rows("name", HEARING, 4)
def test_tokens_and_flops_of_sounds_are_the_class_s(name):
    entry = HEARING[name]
    for frames, heard in zip(entry["frames"], entry["heard"], strict=True):
        request = Request(media=(Medium("frames", (frames,)),))
        [medium] = archcli.count_flops(config(name), request).totals["media"]
        assert (medium["tokens"], medium["matmul_flops"]) == (heard["features"], heard["flops"])
        assert sum(medium["by_part"].values()) == heard["flops"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", HEARING)
def test_transformers_still_says_so(name):
    assert figures(HEARING[name]) == {key: HEARING[name][key] for key in ("params", "heard")}


def test_seconds_of_a_spectrogram_of_any_length():
    """A second has 100 frames, 50 where two are stacked; without a length 30 seconds are read."""
    for name, rate in (("qwen3-omni", 100), ("granite-speech", 50)):
        asked = [Request(media=(Medium(*medium),)) for medium in (("seconds", (7,)), ("frames", (7 * rate,)))]
        one, two = (archcli.count_flops(config(name), request).totals["media"][0] for request in asked)
        assert one["matmul_flops"] == two["matmul_flops"]


def test_layers_of_dots3_note_have_experts_by_older_words():
    """-1 is a dense network, which each number of experts stands in place of."""
    data = config("dots3-note")
    seen = {
        key: value
        for key, value in data["vision_config"].items()
        if key not in ("mlp_layer_types", "per_layer_config", "hidden_size", "num_attention_heads")
    }
    older = {**seen, "embed_dim": 32, "num_heads": 4, "pyramid_num_routed": [-1, 3, 5], "capacity_factor": 1}
    report = archcli.count_params({**data, "vision_config": older})
    assert report.totals["by_part"] == HEARING["dots3-note"]["params"]


def test_the_older_word_for_the_width_of_nemotron_omni_s_encoder():
    data = config("nemotron-omni")
    data["vit_hidden_size"] = data.pop("vision_hidden_size")
    assert archcli.count_params(data).totals["by_part"] == HEARING["nemotron-omni"]["params"]


def test_seconds_of_nemotron_omni_have_a_frame_more():
    """8 seconds are 801 frames, and 401, 201 and 101 behind each convolution; 800 were 100 tokens."""
    request = Request(media=(Medium("seconds", (8,)),))
    [medium] = archcli.count_flops(config("nemotron-omni"), request).totals["media"]
    assert HEARING["nemotron-omni"]["frames"][1] == 801
    assert medium["tokens"] == HEARING["nemotron-omni"]["heard"][1]["features"] == 101


@pytest.mark.long
@every_row(
    ("name", "key", "changed", "said"),
    [
        ("qwen3-omni", "audio_config", {"n_window": 10}, "20 frames have 3 tokens: the class counts 13"),
        ("qwen3-omni", "audio_config", {"n_window_infer": 60}, "less than a chunk of 100 frames"),
        ("gemma4", "audio_config", {"attention_context_right": 2}, "above 0 is not supported"),
        ("gemma4", "audio_config", {"attention_chunk_size": 9}, "does not fit 7 tokens back"),
        ("gemma4", "audio_config", {"subsampling_conv_channels": [64, 4]}, "do not fit 128 mel bins"),
        ("gemma4", "audio_config", {"subsampling_conv_channels": 4}, "a pair of sizes"),
        ("granite-speech", "encoder_config", {"context_size": 13}, "is more than max_pos_emb 12"),
        ("granite-speech", "projector_config", {"cross_attention_frequency": 2}, "2 is not supported"),
        ("granite-speech", "projector_config", {"hidden_size": 32}, "of another width"),
        ("glmasr", "audio_config", {"intermediate_size": 96}, "must be four times hidden_size"),
        ("dots3-note", "audio_config", {"conv_output_size": 48}, "conv_output_size"),
        ("dots3-note", "audio_config", {"whisper_config": {"d_model": 96}}, "whisper_config"),
        ("dots3-note", "vision_config", {"adapter_out_dim": 96}, "adapter_out_dim"),
        ("dots3-note", "vision_config", {"mlp_layer_types": ["dense"]}, "an entry for each of 3 layers"),
        ("dots3-note", "vision_config", {"mlp_layer_types": ["dense"] * 2 + ["x"]}, "'x' is not supported"),
        ("dots3-note", "vision_config", {"per_layer_config": {"1": {"hidden_size": 8}}}, "of layer 1 is not"),
        ("dots3-note", "vision_config", {"mlp_bias": True}, "mlp_bias with experts"),
        ("nemotron-omni", "audio_config", {"subsampling_factor": 6}, "is no power of 2"),
        ("nemotron-omni", "audio_config", {"projection_bias": None}, "projection_bias"),
        ("nemotron-omni", "vision_config", {"hidden_size": 36}, "vision_hidden_size must be 36"),
        ("nemotron-omni", "vision_config", {"video_temporal_patch_size": 3}, "video_temporal_patch_size"),
    ],
)
def test_a_tower_that_cannot_be_read_exactly_is_left_out(name, key, changed, said):
    data = config(name)
    report = archcli.count_params({**data, key: {**data[key], **changed}})
    assert "params_with_towers" not in report.totals
    tower = key.replace("projector", "encoder")
    [note] = [note for note in report.notes if f"({tower}) is not counted" in note]
    assert said in note


def test_gemma_4_has_the_towers_that_its_file_states():
    data = config("gemma4")
    without = archcli.count_params({**data, "audio_config": None})
    expected = {**HEARING["gemma4"]["params"]}
    audio = expected.pop("audio_tower")
    assert without.totals["by_part"] == {**expected, "projector": expected["projector"] - 36 * 64}
    assert audio
    assert not [note for note in without.notes if "audio_config" in note]
    alone = archcli.count_params({**data, "audio_config": None, "vision_config": None})
    assert "params_with_towers" not in alone.totals


@pytest.mark.parametrize(
    ("size", "tokens"),
    [((768, 768), 16 * 16), ((480, 640), 14 * 19), ((1080, 1920), 12 * 22), ((4, 9000), 1 * 280)],
)
def test_an_image_of_gemma_4_fills_a_budget_of_280_tokens(size, tokens):
    """280 x 48 x 48 pixels in the image's shape, both sides cut to multiples of 48.

    768 x 768: sqrt(280) = 16.7 to each side; 480 x 640: 14.5 and 19.3; 1080 x 1920: 12.5 and 22.3. Of 4 x
    9000 pixels a row would be 0.35 high: it is one row, of 9000 / 4 columns and 280 at most.
    """
    [medium] = archcli.count_flops(config("gemma4"), image=[size]).totals["media"]
    assert medium["tokens"] == tokens


def tower_of_phi_4():
    """A model with the audio tower of Phi-4-multimodal, by the defaults of its class."""
    whole = Config({"model_type": "phi4_multimodal", "audio_config": {}})
    width = ConfigValue(3072, whole.places.start)
    tower = bare(phi4(TowerSource(whole, *image_settings(whole), width, {})))
    layer = {"kind": "pre_norm", "ffn": {"kind": "mlp", "d_ff": 1}}
    text = {
        "vocab_size": 1,
        "d_model": 3072,
        "max_seq_len": 1,
        "norm": "rmsnorm",
        "groups": [{"n_layers": 1, "layer": layer}],
        "towers": [tower],
    }
    return load_text(json.dumps(text), "phi-4.yaml").model


def bare(value):
    """A mapping of a config without the places of its keys."""
    if isinstance(value, ConfigValue):
        return bare(value.value)
    if isinstance(value, dict):
        return {key: bare(inner) for key, inner in value.items()}
    return [bare(inner) for inner in value] if isinstance(value, list | tuple) else value


def test_the_audio_tower_of_phi_4_by_hand():
    """1,000 frames become 125 tokens: D 1024, F 1536, 24 layers; a convolution is computed on 127 tokens."""
    model = tower_of_phi_4()
    totals = archcli.count_flops(model, Request(media=(Medium("frames", (1000,)),))).totals
    [medium] = totals["media"]
    d, f, n = 1024, 1536, 125
    # 500 x 40, 250 x 20 and 125 x 10 places of 9 taps, the last two with a matrix behind
    convolutions = 2 * d * 9 * (500 * 40 + 250 * 20 + 125 * 10) + 2 * d * d * (250 * 20 + 125 * 10)
    networks = 2 * 2 * n * 3 * d * f
    attention = 2 * n * 4 * d * d + 4 * n * n * d
    convolution = 2 * n * 3 * d * d + 2 * 127 * d * (3 + d)
    tower = convolutions + 2 * n * 10 * d * d + 24 * (networks + attention + convolution)
    projector = 2 * n * (d * 3072 + 3072 * 3072)
    assert medium["tokens"] == n
    assert medium["by_part"] == {"audio_tower": tower, "projector": projector}
    # a second perceptron, of prompts with an image, is stored and not read
    parts = archcli.count_params(model).totals["by_part"]
    assert (parts["audio_tower"], parts["projector"]) == (441_254_144, 2 * (3072 * 1025 + 3072 * 3073))
    with pytest.raises(ArchError, match="4,001 frames are not read: 4,000 at most"):
        archcli.count_flops(model, Request(media=(Medium("frames", (4001,)),)))
