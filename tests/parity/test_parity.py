"""Every family against Hugging Face's own class on random weights: names, one pass, decoding.

Mutants that must be seen.
"""

import pytest
import torch
from safetensors.torch import load_file

from archcli.load.checkpoint.safetensors import read_header, read_tensor
from archcli.modules import Attention, Encoder, KeyIndex, MixtureOfExperts, Rope, ValueGate
from archcli.wings.running.runtime.model.build import set_expert_form
from archcli.wings.running.runtime.weights.compare import PlacedTensors, loaded, translate
from archcli.wings.running.weights.checkpoint import compare
from parity.families import FAMILIES
from parity.mutations import mutants, parts
from parity.witness import (
    SHORT,
    TOLERANCE,
    difference,
    expected_steps,
    mutant_model,
    of_tower,
    our_model,
    spans,
    witness,
)
from table import every_row

FAMILY = pytest.mark.parametrize("name", FAMILIES)
ATTENTION = every_row("attention", ["eager", "sdpa"])
PARTS = {name: [part for _, part in parts(family.spec)] for name, family in FAMILIES.items()}
NEAR = {
    name: all(getattr(part, "sparsity", None) for part in below if isinstance(part, Attention))
    for name, below in PARTS.items()
}
GENERATORS = [name for name, family in FAMILIES.items() if not isinstance(family.spec, Encoder)]
MIXTURES = [
    name for name, below in PARTS.items() if any(isinstance(part, MixtureOfExperts) for part in below)
]


@pytest.mark.sample(1)
@FAMILY
def test_every_weight_has_its_name_and_is_random(name):
    ours, model = witness(name).ours, our_model(name, "eager")
    assert {key: value.shape for key, value in model.state_dict().items()} == {
        key: value.shape for key, value in ours.items()
    }
    assert [key for key, value in ours.items() if value.numel() > 1 and value.min() == value.max()] == []


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if not family.in_memory])
def test_a_checkpoint_holds_the_same_weights(name, tmp_path):
    seen = witness(name)
    seen.model.save_pretrained(tmp_path)
    shapes = {key: value.shape for key, value in seen.ours.items()}
    family = FAMILIES[name]
    files = load_file(tmp_path / "model.safetensors")
    files = {key: value for key, value in files.items() if not of_tower(key, family)}
    stored = translate(files, family.map, shapes)
    assert stored.keys() == seen.ours.keys()
    assert [key for key, value in stored.items() if not torch.equal(value, seen.ours[key])] == []
    # and as `params --against` and `verify --weights` read the same file, without safetensors
    held = read_header(tmp_path / "model.safetensors")
    found = compare(family.spec, {key: tensor.shape for key, tensor in held.items()}, family.map)
    assert {line.status for line in found.lines if line.status != "extra"} <= {"same", "buffer"}
    placed = PlacedTensors(tuple((held[key], place) for key, place in found.places.items()), read_tensor)
    filled = loaded(family.spec, placed, torch.float32).state_dict()
    assert filled.keys() == seen.ours.keys()
    assert [key for key, value in filled.items() if not torch.equal(value, seen.ours[key])] == []


@pytest.mark.long
@pytest.mark.sample(1)
@FAMILY
@ATTENTION
@torch.inference_mode()
def test_one_pass_gives_the_same_logits(name, attention):
    seen, model = witness(name), our_model(name, attention)
    assert difference(model(seen.tokens, *seen.source), seen.logits) <= TOLERANCE
    # on both sides of every window's and chunk's edge; of an encoder each length is another answer
    for length in range(1 if name in GENERATORS else SHORT, SHORT + 1):
        assert (
            difference(model(seen.tokens[:, :length], *seen.source), seen.short_logits[:, :length])
            <= TOLERANCE
        )


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", GENERATORS)
@ATTENTION
@every_row("prompt", [1, 13])
@torch.inference_mode()
def test_prefill_and_decode_give_the_same_logits(name, attention, prompt):
    tokens, model = witness(name).tokens, our_model(name, attention)
    first, *rest = spans(prompt)
    logits, cache = model.prefill(tokens[:, first], *witness(name).source)
    steps = [logits]
    for span in rest:
        logits, cache = (
            model.step(tokens[:, span], cache)
            if span.stop - span.start > 1
            else model.decode(tokens[:, span], cache)
        )
        steps.append(logits)
    assert difference(torch.cat(steps, dim=1), expected_steps(name, prompt)) <= TOLERANCE


@pytest.mark.sample(1)
@torch.inference_mode()
@pytest.mark.parametrize("name", MIXTURES)
def test_gathered_experts_give_the_same_logits(name):
    seen, model = witness(name), our_model(name, "eager")
    set_expert_form(model, "gather")
    gathered = model(seen.tokens, *seen.source)
    set_expert_form(model, "grouped")
    assert difference(gathered, seen.logits) <= TOLERANCE


@pytest.mark.long
@pytest.mark.sample(1)
@torch.inference_mode()
@FAMILY
def test_every_mutant_is_seen(name):
    seen, family, unseen = witness(name), FAMILIES[name], set()
    passes = [(seen.tokens, seen.logits), (seen.tokens[:, :SHORT], seen.short_logits)]
    for label, spec in [("unchanged", family.spec), *mutants(family.spec)]:
        model = mutant_model(spec, seen.ours)
        if all(difference(model(tokens, *seen.source), logits) <= TOLERANCE for tokens, logits in passes):
            unseen.add(label)
    assert unseen == {"unchanged", *family.inert}


@pytest.mark.sample(7)
@FAMILY
def test_mutants_change_what_is_easily_mistaken(name):
    labels = [label.split(": ") for label, _ in mutants(FAMILIES[name].spec)]
    mistakes = {"eps"}
    if any(isinstance(part, Attention) for part in PARTS[name]):
        seen = "window" if name in GENERATORS or NEAR[name] else "causal"
        chosen = any(isinstance(part, KeyIndex | ValueGate) for part in PARTS[name])
        mistakes |= {"scale", "softcap", "top_k" if chosen else seen}
    if any(isinstance(part, Rope) for part in PARTS[name]):
        mistakes |= {"theta", "pairing"}
    assert {
        mistake for mistake in mistakes if any(what.startswith(mistake) for _, what in labels)
    } == mistakes
    assert any(path.endswith("activation") for path, _ in labels)
