"""The same model with attention only: a hybrid whose recurrent layers become its attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from archcli.modules import Mixer, MixerFacts, Model, substitute
from archcli.modules.models.layers import LayerIndex


def attention_only(model: Model) -> Model | None:
    """The model with attention in every layer that mixes tokens; None for one that is no hybrid.

    A layer of parallel branches keeps its own attention, any other layer without scores gets the one that
    most layers of the model have. One that uses a shared block with attention has that alone.
    """
    lacking: dict[str, Sequence[Mixer | None]] = {}
    attentions: dict[MixerFacts, Mixer] = {}
    layers_of: Counter[MixerFacts] = Counter()
    for layer in LayerIndex(model):
        members = [member for _, member in layer.mixers()]
        own = [member for member in members if _attends(member)]
        attentions |= {attention.facts(): attention for attention in own}
        layers_of.update({attention.facts(): layer.times for attention in own})
        if len(own) < len(members) and layer.block.mixing is not None:
            path = f"{layer.yaml_path}.{layer.block.mixing[0]}"
            lacking[path] = own[:1] if layer.uses is None or not own else [None]
    if not attentions or not lacking:
        return None
    usual = attentions[max(layers_of, key=lambda facts: layers_of[facts])]
    return substitute(model, {path: [*own, usual][0] for path, own in lacking.items()})


def _attends(mixer: Mixer) -> bool:
    """Whether it is softmax attention that caches its tokens."""
    facts = mixer.facts()
    return facts.causal and facts.has_scores
