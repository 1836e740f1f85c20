"""Voxtral Realtime and T5Gemma 2, defaults and variations, have the figures of their classes on meta."""

import json
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import archcli
from archcli.errors import ArchError
from archcli.load.spec.written import to_mapping
from mapped import answer
from mapped_whole import whole_answer
from their_class import built, one_pass, params
from whole_model import figures, one_image, params_by_part

TOKENS = 16
CLASSES = json.loads((Path(__file__).parents[1] / "mappings" / "figures.json").read_text())["classes"]
REALTIME = CLASSES["sequence-to-sequence/voxtral_realtime"]["config"]
MERGED = CLASSES["image-text/t5gemma2"]["config"]


def changed(config, changes, few=3):
    """The config with few layers, and keys by their dotted places; None leaves a key out."""
    made = deepcopy(config)
    for place, value in {**dict.fromkeys(depths(config), few), **changes}.items():
        *parts, key = place.split(".")
        part = made
        for name in parts:
            part = part[name]
        part.pop("layer_types", None)
        part.pop(key, None) if value is None else part.update({key: value})
    return made


def depths(config):
    """Places of the number of layers of each part."""
    parts = ["text_config", "audio_config"] if "text_config" in config else ["decoder", "encoder.text_config"]
    return [f"{part}.num_hidden_layers" for part in parts]


AUDIO = [
    {},
    {"audio_config.sliding_window": 40, "audio_config.num_attention_heads": 20},
    {"downsample_factor": 5, "audio_config.num_mel_bins": 80, "audio_config.head_dim": 96},
    {"audio_config.hidden_size": 640, "audio_config.intermediate_size": 1000, "projector_hidden_act": "relu"},
    {"tie_word_embeddings": False, "audio_config.rope_parameters": None},
]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("changes", AUDIO, ids=lambda changes: "-".join(changes) or "default")
def test_sounds_of_voxtral_realtime_cost_what_its_class_computes(changes):
    config = changed(REALTIME, changes)
    known = figures(built(config))
    assert "hidden" not in known
    assert whole_answer(config, known) == ("exact", "")


TEXT = [
    {},
    {"text_config.sliding_window": 5, "text_config.num_key_value_heads": 4},
    {"text_config.sliding_window": None, "text_config.hidden_size": 1024, "text_config.head_dim": 80},
    {"text_config.intermediate_size": 1000, "text_config.vocab_size": 5000, "tie_word_embeddings": False},
]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("changes", TEXT, ids=lambda changes: "-".join(changes) or "default")
def test_text_of_voxtral_realtime_costs_what_its_class_computes(changes):
    """The class reads no text without a sound: its parts are run one by one."""
    config = changed(REALTIME, changes)
    model = built(config)
    inner, ids = model.model, torch.zeros(2, TOKENS, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad(), torch.device("meta"):
        delay = inner.time_embedding(torch.full((1,), 6.0))[None]
        x = inner.get_input_embeddings()(ids)
        out = inner.language_model(inputs_embeds=x, t_cond=delay, use_cache=True)
        model.lm_head(out.last_hidden_state)
    ours = archcli.count_flops(config, seq_len=TOKENS, batch_size=2, mask="dense")
    assert ours.totals["matmul_flops"] == counter.get_total_flops()
    assert archcli.count_params(config).totals["params"] == params(model)
    held = sum(x.numel() // x.shape[2] * min(TOKENS, window_of(layer)) for layer, x in entries(out.cache))
    assert archcli.count_kv_cache(config, context=TOKENS, batch_size=2).totals["kv_elements"] == held


def entries(cache):
    """(layer, keys or values) of a cache."""
    return [(layer, x) for layer in cache.layers for x in (layer.keys, layer.values)]


def window_of(layer):
    """Tokens that a later one can see."""
    return getattr(layer, "sliding_window", None) or TOKENS


HALVES = [
    {"decoder.sliding_window": 5, "encoder.text_config.sliding_window": 4},
    {"decoder.attention_bias": True, "decoder.num_key_value_heads": 1, "decoder.head_dim": 64},
    {"tie_word_embeddings": False, "encoder.text_config.num_attention_heads": 16},
    {"decoder.intermediate_size": 999, "encoder.text_config.attention_bias": True},
    {"decoder.hidden_size": 1024, "encoder.text_config.hidden_size": 1024},
    {"decoder.final_logit_softcapping": 30.0, "decoder.attn_logit_softcapping": 50.0},
]


@pytest.mark.long
@pytest.mark.parametrize("changes", HALVES, ids="-".join)
def test_both_halves_of_t5gemma_2_cost_what_its_class_computes(changes):
    config = changed(MERGED, {"encoder.vision_config.num_hidden_layers": 1, **changes})
    model = built(config)
    known = {"params": params(model), **one_pass(model, TOKENS)}
    assert known["flops"] is not None
    assert answer(config, known, TOKENS) == ("exact", "")


SEEN = [
    {"encoder.vision_config.image_size": 256},
    {"encoder.vision_config.image_size": 896, "encoder.vision_config.patch_size": 14},
    {"encoder.vision_config.image_size": 128, "encoder.mm_tokens_per_image": 16},
    {"encoder.vision_config.hidden_size": 384, "encoder.vision_config.image_size": 256},
]


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("changes", SEEN, ids=lambda changes: "-".join(map(str, changes.values())))
def test_images_of_t5gemma_2_cost_what_its_class_computes(changes):
    config = changed(MERGED, {"encoder.vision_config.num_hidden_layers": 2, **changes})
    model = built(config)
    known = {"params": params_by_part(model), **one_image(model.model.encoder)}
    assert "hidden" not in known
    assert whole_answer(config, known) == ("exact", "")


def test_a_file_without_a_tower_has_that_of_its_class():
    config = changed(MERGED, {})
    stated = archcli.count_params(config).totals
    del config["encoder"]["vision_config"]
    assert archcli.count_params(config).totals["by_part"] == stated["by_part"]


@pytest.mark.long
def test_an_image_of_an_encoder_decoder_stands_in_its_source():
    config = changed(MERGED, {"encoder.vision_config.image_size": 256})
    text = archcli.count_flops(config, seq_len=10, source_len=20 + 256).totals["matmul_flops"]
    sizes = {"seq_len": 10, "source_len": 20, "image": "256x256"}
    whole = archcli.count_flops(config, **sizes)
    assert (whole.totals["matmul_flops"], whole.totals["tokens"]) == (text, 10)
    cache = archcli.count_kv_cache(config, 10, source_len=20, image="256x256").totals
    # keys and values of 4 heads of 256 in 3 layers
    assert cache["cross_elements"] == (20 + 256) * 3 * 2 * 4 * 256
    answers = (
        whole.totals,
        cache,
        archcli.count_memory(config, "serve", **sizes).totals,
        archcli.predict(config, "h100-sxm", phase="prefill", **sizes).totals,
    )
    assert [totals["prompt_tokens"] for totals in answers] == [20 + 256] * 4


@pytest.mark.parametrize(
    ("key", "value"), [("hidden_size", 1024), ("vocab_size", 1000)], ids=["width", "vocabulary"]
)
def test_halves_that_do_not_fit_together_are_refused(key, value):
    with pytest.raises(ArchError, match=f"encoder and decoder differ in {key}: \\d+ and {value}"):
        archcli.count_params(changed(MERGED, {f"decoder.{key}": value}))


def test_sounds_are_added_to_tokens_and_take_no_place_of_their_own():
    sounding = archcli.count_flops(REALTIME, seq_len=39, audio_frames=3000).totals
    assert sounding["matmul_flops"] == archcli.count_flops(REALTIME, seq_len=39).totals["matmul_flops"]
    assert (sounding["prompt_tokens"], sounding["media"][0]["tokens"]) == (39, 3000 // 8)


@pytest.mark.parametrize(("seconds", "tokens"), [(1, 13), (2, 25), (30, 375)])
def test_seconds_are_padded_to_whole_tokens(seconds, tokens):
    [medium] = archcli.count_flops(REALTIME, audio_seconds=seconds, seq_len=1).totals["media"]
    assert medium["tokens"] == tokens


def test_frames_that_make_no_whole_token_are_refused():
    with pytest.raises(ArchError, match="1,001 frames are no whole tokens of 8"):
        archcli.count_flops(REALTIME, audio_frames=1001)


def test_vectors_that_are_added_have_no_token():
    whole = to_mapping(archcli.load(REALTIME))
    whole["towers"][0]["token"] = 24
    with pytest.raises(ArchError, match="stand in the place of no token"):
        archcli.load(whole)


@pytest.mark.torch
def test_a_prompt_of_another_length_than_the_sound_is_refused():
    config = changed(REALTIME, {"text_config.vocab_size": 50, "audio_config.hidden_size": 64}, few=1)
    model = archcli.build(config, device="meta")
    sound, tokens = torch.empty(1, 128, 80, device="meta"), torch.zeros(1, 9, dtype=torch.long, device="meta")
    with pytest.raises(ArchError, match="a prompt has 9 tokens, and audio_tower gives 10 vectors of 1 media"):
        model(tokens, media=[sound])
    assert model(torch.zeros(1, 10, dtype=torch.long, device="meta"), media=[sound]).shape == (1, 10, 50)


def test_dense_pairs_are_those_of_towers_and_of_sums_too():
    config = changed(REALTIME, {})
    exact, dense = (
        archcli.count_flops(config, mask=mask, seq_len=10, audio_frames=8000).totals
        for mask in ("exact", "dense")
    )
    # 3 layers of 32 heads of 64 see 750 of 4,000 vectors, or all; scores and mix, two FLOPs each
    seen = 4000 * 750 - 750 * 749 // 2
    difference = 3 * 2 * 2 * 32 * 64 * (4000 * 4000 - seen)
    assert dense["media"][0]["matmul_flops"] - exact["media"][0]["matmul_flops"] == difference
    for totals in (exact, dense):
        whole = totals["matmul_flops"] + totals["media"][0]["matmul_flops"]
        assert totals["matmul_flops_with_towers"] == whole
