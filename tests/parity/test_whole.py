"""Multimodal models give the logits of their classes in transformers on equal weights, images and sounds."""

import json
import zlib
from functools import cache

import pytest
import torch
import transformers

import archcli
from archcli.api.asking.subject import given
from archcli.errors import ArchError
from archcli.load.huggingface.importer import weight_map
from archcli.measure.weights.stored_bytes import tensors, tower_tensors
from archcli.modules.spec.request import Medium
from archcli.wings.running.runtime.model.build import build_model
from archcli.wings.running.runtime.weights.compare import translate
from archcli.wings.running.runtime.weights.inputs import Inputs
from archcli.wings.running.runtime.weights.media import class_arguments, prompt_with
from archcli.wings.running.runtime.weights.transformers import cache_argument
from parity.whole import PROCESSED, TOKEN, WHOLES

TOLERANCE = 1e-5
DECODED = 3
NAME = pytest.mark.parametrize("name", WHOLES)
# each token of the class's is heard, too: it decodes none without a sound
DECODING = [name for name in WHOLES if name != "voxtral-realtime"]


@cache
@torch.inference_mode(mode=False)
def theirs(name):
    """Their model with every tensor random."""
    whole, seed = WHOLES[name], torch.Generator().manual_seed(zlib.crc32(name.encode()))
    config = transformers.AutoConfig.for_model(**whole.config)
    with torch.random.fork_rng():  # weights start at random, and are spread around that
        torch.manual_seed(seed.initial_seed())
        model = getattr(transformers, whole.cls)._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.add_(whole.spread * torch.randn(tensor.shape, generator=seed))
    return model


@cache
def spec(name):
    """The architecture of the config.json; images of Qwen's kind may be small."""
    model = given(WHOLES[name].saved).model
    [tower] = model.towers
    if not hasattr(tower.sizing, "least"):
        return model
    return model.replace(towers=(tower.replace(sizing=tower.sizing.replace(least=64)),))


def stored(name, ours):
    """Their tensors by our names."""
    held = {key: value for key, value in theirs(name).state_dict().items() if "position_ids" not in key}
    if ours.spec.embedding.tied:
        del held["lm_head.weight"]
    shapes = {key: value.shape for key, value in ours.state_dict().items()}
    return translate(held, weight_map(WHOLES[name].saved), shapes)


def built(name, changed=None, **form):
    """Our model with their weights; `changed` are fields of its tower."""
    architecture = spec(name)
    if changed:
        tower = architecture.towers[0].replace(**changed)
        architecture = architecture.replace(towers=(tower,))
    model = build_model(architecture, towers=True, **form).eval()
    model.load_state_dict(stored(name, model))
    return model


def prompt(name, batch=1):
    """Random ids with the tokens of the media, and the media."""
    whole, seed = WHOLES[name], torch.Generator().manual_seed(7)
    text = torch.randint(3, 90, (batch, 20), generator=seed)
    media = [Medium(whole.kind, size) for size in whole.sizes]
    return prompt_with(spec(name), Inputs(text, ()), media, torch.float32, seed)


def their_logits(name, inputs, tokens):
    """Their output for a prompt with media."""
    model = theirs(name)
    arguments = class_arguments(model.config, inputs.spec, inputs.media, tokens)
    return model(input_ids=tokens, use_cache=True, **arguments)


def distance(ours, expected):
    """The largest difference, of the largest logit."""
    return float((ours - expected).abs().max() / expected.abs().max())


@pytest.mark.long
@pytest.mark.sample(1)
@NAME
@torch.inference_mode()
def test_logits_are_those_of_the_class(name):
    inputs = prompt(name, batch=2)
    expected = their_logits(name, inputs, inputs.tokens).logits
    for attention in ("eager", "sdpa"):
        logits = built(name, attention=attention)(inputs.tokens, media=inputs.media)
        assert distance(logits, expected) <= TOLERANCE


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", DECODING)
@torch.inference_mode()
def test_tokens_behind_an_image_are_decoded_as_the_class_decodes_them(name):
    inputs, model = prompt(name), built(name)
    length = inputs.tokens.shape[1] - DECODED
    out = their_logits(name, inputs, inputs.tokens[:, :length])
    logits, kept = model.prefill(inputs.tokens[:, :length], media=inputs.media)
    assert distance(logits, out.logits[:, -1:]) <= TOLERANCE
    cached = cache_argument(theirs(name))
    for i in range(length, length + DECODED):
        token = inputs.tokens[:, i : i + 1]
        out = theirs(name)(input_ids=token, use_cache=True, **{cached: getattr(out, cached)})
        logits, kept = model.decode(token, kept)
        assert distance(logits, out.logits) <= TOLERANCE


@pytest.mark.long
@pytest.mark.sample(1)
@NAME
def test_a_saved_folder_is_read_back_and_verified(name, tmp_path):
    theirs(name).save_pretrained(tmp_path)
    if "vision_start_token_id" in WHOLES[name].config:
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(PROCESSED))
    report = archcli.verify(tmp_path / "config.json", weights=str(tmp_path), seq_len=12)
    assert report.totals["failed"] == 0
    assert any(f" with {WHOLES[name].kind} " in row["what"] for row in report.rows)


@pytest.mark.sample(1)
@NAME
def test_tensors_of_towers_are_those_of_the_built_model(name):
    model, state = spec(name), archcli.build(spec(name), device="meta").state_dict()
    weights, buffers = ({**a, **b} for a, b in zip(tensors(model), tower_tensors(model), strict=True))
    assert {key: tuple(value.shape) for key, value in state.items()} == weights | buffers


CHANGED = {
    "llava": {"after": 3},
    "llava-first-layer": {"after": 2},
    "mllama": {"beside": (3, 1)},
    "qwen2-vl": {"sections": (2, 1, 1)},
    "qwen3-vl": {"interleaved": False},
    "qwen3-vl-moe": {"sections": ()},
    "gemma3": {"both_ways": "none"},
    "paligemma": {"both_ways": "medium"},
    "voxtral-realtime": {"after": 2},
}
"""Fields of a tower that change no weight."""


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize("name", CHANGED)
@torch.inference_mode()
def test_another_field_of_the_tower_gives_other_logits(name):
    inputs = prompt(name)
    expected = their_logits(name, inputs, inputs.tokens).logits
    logits = built(name, CHANGED[name])(inputs.tokens, media=inputs.media)
    assert distance(logits, expected) > 100 * TOLERANCE


@pytest.mark.long
@torch.inference_mode()
def test_an_image_alone_is_a_tensor():
    inputs, model = prompt("llava"), built("llava")
    [(_, pixels)] = inputs.media
    alone = model(inputs.tokens, media=[pixels])
    assert torch.equal(alone, model(inputs.tokens, media=inputs.media))


@pytest.mark.long
def test_a_prompt_without_a_token_for_each_vector_is_refused():
    inputs, model = prompt("llava"), built("llava")
    with pytest.raises(ArchError, match=f"a prompt has 8 tokens {TOKEN}, and vision_tower gives 9 vectors"):
        model(inputs.tokens[:, 4:], media=inputs.media)


def test_a_model_without_its_towers_reads_no_image():
    inputs, model = prompt("llava"), build_model(spec("llava"))
    with pytest.raises(ArchError, match="built without parts for images and sounds"):
        model(inputs.tokens, media=inputs.media)


@pytest.mark.long
def test_images_stand_in_the_prompt_alone():
    inputs, model = prompt("llava"), built("llava")
    _, kept = model.prefill(inputs.tokens, media=inputs.media)
    with pytest.raises(ArchError, match="images and sounds stand in the prompt alone"):
        model.step(inputs.tokens, kept, media=inputs.media)


@pytest.mark.sample(1, whole=True)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image_token_index": 96}, "token 96 of vision_tower is none of 96 words"),
        ({"image_token_index": -200}, "vision_tower states no token"),
    ],
    ids=["beyond-vocabulary", "negative"],
)
def test_where_towers_cannot_be_run_the_language_model_alone_is_built(change, reason):
    config = {**WHOLES["llava"].saved, **change}
    with pytest.warns(UserWarning, match=f"the language model alone is built: {reason}"):
        model = archcli.build(given(config).model, device="meta")
    assert not any(name.startswith("vision_tower") for name, _ in model.named_parameters())


def test_verify_refuses_an_image_of_a_text_model():
    with pytest.raises(ArchError, match="gpt2 reads text alone"):
        archcli.verify("gpt2", image=["24x24"])
