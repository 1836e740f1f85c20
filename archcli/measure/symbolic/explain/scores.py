"""Scores: the textbook's FLOPs of attention scores and their mix, for what the layers of a model see.

A query and a key that it sees cost 4 d FLOPs: a product for the score, and one for the value that it weighs.
A causal mask leaves half of all pairs, a window w about w keys for each query.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archcli.measure.symbolic.explain.question import Question
from archcli.modules import Model
from archcli.modules.attention.mixer import MixerFacts
from archcli.modules.models.layers import DistinctLayer, LayerIndex, layer_count, stated_layers


class SeenKeys(NamedTuple):
    """What a query sees: `keys`, S or the number of a window, at `flops` times d for each of them.

    Half of 4 d stands for queries of which each sees half of the keys on average.
    """

    flops: int
    keys: str

    def form(self, layers: str) -> str:
        """The textbook's form for so many layers."""
        return f"{self.flops}*{layers}*d*{self.keys}*T"


EVERY_KEY, EARLIER_KEYS = SeenKeys(4, "S"), SeenKeys(2, "S")


def score_forms(model: Model, question: Question) -> list[str]:
    """A form for each number of keys that layers see; a number in place of L counts those layers."""
    counts: dict[SeenKeys, int] = {}
    for layer in LayerIndex(model):
        for seen in _of_layer(layer, model, question):
            counts[seen] = counts.get(seen, 0) + layer.times
    every = layer_count(model)
    return [seen.form("L" if layers == every else str(layers)) for seen, layers in counts.items()]


def score_form(model: Model, question: Question, places: Sequence[str]) -> str | None:
    """The form of layers that are alike, by their YAML paths; None where they have no scores."""
    layers = zip(stated_layers(model), LayerIndex(model), strict=True)
    layer = next((layer for stated, layer in layers if stated.yaml_path in places), None)
    seen = None if layer is None else _seen(layer.facts(model.d_model), question)
    return None if seen is None else seen.form("L")


def attending_layers(model: Model, question: Question) -> Iterator[tuple[int, int | None]]:
    """(layers, their window) of those whose keys and values are cached; the window None for all tokens."""
    length = question.request.resolved().seq_len
    counts: dict[int | None, int] = {}
    for layer in LayerIndex(model):
        facts = layer.facts(model.d_model)
        if facts.has_scores and layer.stack.is_causal:
            bound = min((n for n in (facts.window, facts.chunk) if n is not None), default=length)
            key = None if bound >= length else bound
            counts[key] = counts.get(key, 0) + layer.times
    yield from ((layers, bound) for bound, layers in counts.items())


def _of_layer(layer: DistinctLayer, model: Model, question: Question) -> Iterator[SeenKeys]:
    """What the queries of a layer see: its own tokens, and in a decoder those of an encoder."""
    seen = _seen(layer.facts(model.d_model), question)
    if question.request.phase == "decode" and not layer.stack.is_causal:
        return  # the encoder has run
    if seen is not None:
        yield seen
    if getattr(layer.block, "cross_attention", None) is not None:
        yield EVERY_KEY


def _seen(facts: MixerFacts, question: Question) -> SeenKeys | None:
    """What a query of a mixer sees under the mask that is asked for; None without softmax attention."""
    if not facts.has_scores:
        return None
    asked = question.request.resolved()
    if question.mask == "dense" and asked.phase != "decode":
        return EVERY_KEY
    length = asked.past + asked.seq_len
    bounds = [n for n in (facts.window, facts.sparse_window, facts.indexed) if n is not None and n < length]
    if bounds:
        return SeenKeys(4, str(min(bounds)))
    if facts.chunk is not None and facts.chunk < length:
        return SeenKeys(2, str(facts.chunk))  # of its chunk, a query sees the earlier half
    return EARLIER_KEYS if facts.causal and asked.phase != "decode" else EVERY_KEY
