"""The class of transformers that `archcli export` names has the logits of the model, weight by weight."""

import json

import pytest
import torch

import archcli
import their_class
from archcli.load.huggingface.importer import weight_map
from archcli.wings.running.runtime.weights.compare import translate
from narrow_presets import narrowed

TOKENS, TOLERANCE = 9, 1e-5
NAMES = ("gpt2", "llama-3.1-8b", "gemma-2-2b", "mixtral-8x7b", "mamba-130m")
"""Learned positions and fused matrices, rotary GQA, windows and softcaps, a mixture, a recurrence."""


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
@torch.inference_mode()
def test_the_class_of_a_tiny_models_file_gives_its_logits(name):
    config = json.loads(archcli.export(narrowed(name)).text)
    ours = archcli.build(narrowed(name), attention="eager").eval()
    on_meta = their_class.built(config)
    theirs = type(on_meta)(on_meta.config).eval()
    torch.manual_seed(len(name))
    for parameter in theirs.parameters():
        parameter.copy_(torch.randn(parameter.shape) * 0.3)
    stored = dict(theirs.named_parameters())
    shapes = {key: tuple(p.shape) for key, p in ours.state_dict().items()}
    ours.load_state_dict(translate(stored, weight_map(config), shapes))
    tokens = torch.randint(0, config["vocab_size"], (2, TOKENS))
    expected = theirs(tokens, use_cache=False).logits
    assert expected.std() > TOLERANCE
    assert (ours(tokens) - expected).abs().max() <= TOLERANCE * expected.abs().max()
