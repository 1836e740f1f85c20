"""The same model with attention only: a hybrid whose recurrent layers become its attention."""

from __future__ import annotations

from collections import Counter

from archcli.modules import Mixer, MixerFacts, Model, substitute
from archcli.modules.layers import LayerIndex


def attention_only(model: Model) -> Model | None:
    """The model with attention in every layer that mixes tokens; None for one that is no hybrid.

    A layer of parallel branches keeps its own attention, any other layer without scores gets the one that
    most layers of the model have.
    """
    lacking: dict[str, Mixer | None] = {}
    attentions: dict[MixerFacts, Mixer] = {}
    layers_of: Counter[MixerFacts] = Counter()
    for layer in LayerIndex(model):
        if layer.block.mixing is None:
            continue
        key, mixer = layer.block.mixing
        members = [member for _, member in mixer.members(key)]
        own = [member for member in members if _attends(member)]
        attentions |= {attention.facts(): attention for attention in own}
        layers_of.update({attention.facts(): layer.times for attention in own})
        if len(own) < len(members):
            lacking[f"{layer.yaml_path}.{key}"] = own[0] if own else None
    if not attentions or not lacking:
        return None
    usual = attentions[max(layers_of, key=lambda facts: layers_of[facts])]
    return substitute(model, {path: own or usual for path, own in lacking.items()})


def _attends(mixer: Mixer) -> bool:
    """Whether it is softmax attention that caches its tokens."""
    facts = mixer.facts()
    return facts.causal and facts.has_scores
